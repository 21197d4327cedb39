// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/ceiling"
	"weir/internal/host/discover"
)

// drawable are values of each field, from little to much.
var drawable = map[string][]string{
	"weight":        {"1", "2", "5", "100", "10000"},
	"min":           {"none", "1mbit", "10mbit", "15%", "40mbit"},
	"max":           {"none", "5mbit", "20mbit", "30%", "90mbit"},
	"burst":         {"none", "100kB", "1MB", "5MB"},
	"reserve":       {"none", "2mbit", "30mbit"},
	"limit_packets": {"0", "50", "100", "1000000"},
	"limit_bytes":   {"0", "30000", "4000000"},
	"discipline":    {"sfq", "fifo", "pq", "cbwfq", "llq"},
	"queues": {"none", "{a: {match: [{udp: 5001}]}, b: {}}", "{a: {rate: 1mbit, match: [{udp: 5001}]}, b: {reserve: 20mbit}}",
		"{a: {dscp: ef, limit_packets: 500, match: [{udp: 5001}]}, b: {}}", "{a: {min: 1mbit, match: [{udp: 5001}]}, b: {reserve: 2mbit}}"},
	"aqm":       {"default", "off", "5ms/100ms"},
	"isolation": {"flows", "srchost"},
	"dscp":      {"none", "ef", "cs1"},
	"group":     {"none", "office", "tenant"},
	"zones":     {"none", "lan max 30mbit", "lan weight 9", "lan min 20mbit", "wan max 90mbit", "wan weight 900", "wan min 40mbit max 80mbit; lan max 2mbit"},
	"quota":     {"none", "egress 1GB per month then tell", "egress 5GB per month then max 5mbit"},
	"when": {"none", "sat-sun 00:00-24:00 UTC max 5mbit", "daily 00:00-12:00 UTC weight 9", "mon-fri 08:00-18:00 UTC min 10mbit",
		"sat 08:00-18:00 UTC min 30mbit max 80mbit; sun 00:00-24:00 UTC max none"},
}

// drawFields draws values of some fields that may stand in a place.
func drawFields(t *rapid.T, whose string, on policy.Place) map[string]string {
	names := policy.FieldNames(on)
	if on == policy.OnWorkload {
		names = policy.AllNames()
	}
	given := map[string]string{}
	for _, name := range names {
		if rapid.IntRange(0, 3).Draw(t, whose+" says "+name) == 0 {
			given[name] = rapid.SampledFrom(drawable[strings.TrimPrefix(name, "ingress.")]).Draw(t, whose+" "+name)
		}
	}
	if text := given["queues"]; text != "" && text != "none" && rapid.Bool().Draw(t, whose+": a discipline with queues") {
		given["discipline"] = "llq"
	}
	return given
}

// layerOf returns drawn fields as a layer.
func layerOf(t *rapid.T, fields map[string]string) policy.Change {
	var c policy.Change
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if err := c.Put(name, fields[name]); err != nil {
			t.Fatalf("%s %q: %v", name, fields[name], err)
		}
	}
	return c
}

// A source is a way by which something comes with a workload or group and says a policy.
var sources = map[string]struct {
	group bool
	tell  func(w *World, fields map[string]string, layer policy.Change)
}{
	"label": {tell: func(w *World, fields map[string]string, _ policy.Change) { w.Found[0].Labels = asLabels(fields) }},
	"label of an image": {tell: func(w *World, fields map[string]string, _ policy.Change) {
		w.Found[0].Labels, w.Found[0].ImageLabels = asLabels(fields), asLabels(fields)
	}},
	"compose project": {tell: func(w *World, fields map[string]string, _ policy.Change) { w.Found[0].Group = fields["group"] }},
	"moved container": {tell: func(w *World, _ map[string]string, layer policy.Change) {
		w.Asked = map[string]policy.Change{w.Found[0].Key: layer}
	}},
	"annotation of a pod": {tell: func(w *World, _ map[string]string, layer policy.Change) {
		w.Found[0].Key, w.Found[0].Kind = podKey("web"), workload.KindPod
		w.Asked = map[string]policy.Change{podKey("web"): layer}
	}},
	"class of a pod": {tell: func(w *World, _ map[string]string, layer policy.Change) {
		w.Found[0].Key, w.Found[0].Kind = podKey("web"), workload.KindPod
		w.Attached = []config.Attachment{{Name: "web", Pod: "s", Weight: layer.To().Weight}}
	}},
	"claim": {tell: func(w *World, _ map[string]string, _ policy.Change) {
		w.Found[0].Key, w.Found[0].Kind = podKey("web"), workload.KindPod
		w.Allocations = []Allocation{{Name: "c", For: "shop/c", Pods: []string{"web"}, Mins: []LinkMin{{"eth0", 25e6}}}}
	}},
	"annotation of a namespace": {group: true, tell: func(w *World, _ map[string]string, layer policy.Change) {
		w.AskedGroups = map[string]policy.Change{"office": layer.Only(policy.FieldNames(policy.OnGroup)...)}
	}},
}

func asLabels(fields map[string]string) map[string]string {
	labels := map[string]string{}
	for name, text := range fields {
		labels["weir."+strings.ReplaceAll(name, "_", "-")] = text
	}
	return labels
}

// TestNothingWidens: each field, said by each source, against what weir.yaml gives as a default, by
// a pattern, by name or to a group: at no moment and on no link is anything beyond what weir.yaml
// gives alone, and the note says what was cut if anything was.
func TestNothingWidens(t *testing.T) {
	for _, source := range slices.Sorted(maps.Keys(sources)) {
		t.Run(source, func(t *testing.T) {
			cut, kept := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				w, admin := drawHost(t, sources[source].group)
				fields := drawFields(t, "it", policy.OnWorkload)
				layer := layerOf(t, fields)
				asks := w.Clone()
				sources[source].tell(&asks, fields, layer)
				bare := asks.Clone() // the same workload, which asks for nothing
				bare.Found[0].Labels, bare.Found[0].ImageLabels, bare.Found[0].Group = nil, nil, ""
				bare.Asked, bare.AskedGroups, bare.Allocations, bare.Attached = nil, nil, nil, nil
				for _, now := range []string{"2026-11-23T10:00:00Z", "2026-11-28T10:00:00Z", "2026-11-29T23:00:00Z"} {
					bare.Now, _ = time.Parse(time.RFC3339, now)
					asks.Now = bare.Now
					had, has := Decide(bare), Decide(asks)
					notBeyond(t, source, admin, layer, had, has)
					if v := subject(has, sources[source].group); len(v.Cuts) > 0 {
						cut++
					} else {
						kept++
					}
					saysWhatWasCut(t, subject(has, sources[source].group))
				}
				switch source {
				case "label", "moved container", "annotation of a pod", "annotation of a namespace":
					countsOrIsCut(t, layer, subject(Decide(asks), sources[source].group))
				}
			})
			t.Logf("%d decisions cut something, %d nothing", cut, kept)
		})
	}
}

// drawHost returns a host with a workload web in a configuration, and what that gives to web, or
// to the group office.
func drawHost(t *rapid.T, group bool) (World, policy.Change) {
	place := rapid.SampledFrom([]string{"defaults: %s", `workloads: {"w*": %s}`, "workloads: {web: %s}"}).Draw(t, "given by")
	on := policy.OnWorkload
	if group {
		place, on = "groups: {office: %s, tenant: {}}", policy.OnGroup
	} else {
		place += "\ngroups: {office: {weight: 3}, tenant: {weight: 9}}"
	}
	given := drawFields(t, "weir.yaml", on)
	var parts, ingress []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		text := given[name]
		if name := strings.TrimPrefix(name, "ingress."); name != "queues" || text == "none" {
			text = fmt.Sprintf("%q", text)
		}
		if inner, is := strings.CutPrefix(name, "ingress."); is {
			ingress = append(ingress, inner+": "+text)
		} else {
			parts = append(parts, name+": "+text)
		}
	}
	if len(ingress) > 0 {
		parts = append(parts, "ingress: {"+strings.Join(ingress, ", ")+"}")
	}
	allow := rapid.SampledFrom([]string{"", "labels: {allow: [" + strings.Join(policy.FieldNames(policy.OnWorkload), ", ") + "]}",
		"labels: {images: true}", "labels: {allow: [queues, when, zones], images: true}"}).Draw(t, "labels")
	c, err := config.Parse("weir.yaml", []byte("links: [{device: eth0, egress: 100mbit, ingress: 50mbit, zones: {lan: {egress: 30mbit, prefixes: [10.0.0.0/8]}, wan: {}}}]\n"+
		allow+"\n"+fmt.Sprintf(place, "{"+strings.Join(parts, ", ")+"}")))
	if err != nil {
		t.Skip("a configuration with a mistake: ", err)
	}
	web := discover.Workload{Key: workload.Key(workload.KindDocker, "web"), ID: "s", Name: "web", Kind: workload.KindDocker, Devices: []discover.Device{{Name: "veth", Ifindex: 7}}}
	if group {
		c.Workloads = append(c.Workloads, config.Rule{Pattern: "web", Layer: policy.MustChange("group", "office")})
		admin, _ := World{Config: c}.configured("office")
		return World{Config: c, Found: []discover.Workload{web}, Number: map[string]plan.ClassID{}}, admin
	}
	return World{Config: c, Found: []discover.Workload{web}, Number: map[string]plan.ClassID{}}, c.Defaults.Over(c.LayerFor("web"))
}

// subject returns the ruling about web, or about office.
func subject(d Decision, group bool) Ruling {
	if group {
		v, _ := d.Group(plan.GroupKey("office"))
		return v
	}
	i := slices.IndexFunc(d.Rulings, func(v Ruling) bool { return v.Name == "web" })
	return d.Rulings[i]
}

// notBeyond compares the classes of a decision with those of one about the same host without the
// source.
func notBeyond(t *rapid.T, source string, admin, layer policy.Change, had, has Decision) {
	group := sources[source].group
	was, is := subject(had, group), subject(has, group)
	for link, state := range has.Plans {
		own := admin
		if state.Link.Direction == policy.Ingress {
			if own = (policy.Change{}); admin.Ingress != nil {
				own = *admin.Ingress
			}
		}
		before, there := had.Plans[link].Class(was.Class)
		after, here := state.Class(is.Class)
		if !there || !here || before.Name != after.Name {
			t.Fatalf("%s: %s was class %+v and is %+v", link, was.Name, before, after)
		}
		beyond := func(format string, args ...any) {
			t.Errorf("%s at %v: %s, and weir.yaml alone gives %s, asked %s, cut %+v: %+v\nwas %+v", link, has.World.Now, fmt.Sprintf(format, args...), admin.Texts(), layer.Texts(), is.Cuts, after, before)
		}
		if before.Max > 0 && (after.Max == 0 || after.Max > before.Max) {
			beyond("max %v", after.Max)
		}
		if own.Gives("weight") && after.Weight > before.Weight {
			beyond("weight %d", after.Weight)
		}
		if (own.Gives("min") || !own.To().Reserve.None()) && source != "claim" && !group && after.Min > max(before.Min, was.promised(state.Link).Floor(state.Link.Capacity, state.Link.Overhead())) && !state.Link.Aside {
			beyond("min %v", after.Min)
		}
		if before.Max > 0 && after.Min > before.Max {
			beyond("min %v", after.Min)
		}
		if before.Max > 0 && !state.Link.Aside && after.Burst > before.Burst {
			beyond("burst %d", after.Burst)
		}
		if own.Gives("limit_packets") && before.Limit.Packets > 0 && (after.Limit.Packets == 0 || after.Limit.Packets > before.Limit.Packets) {
			beyond("%d packets", after.Limit.Packets)
		}
		if own.Gives("limit_bytes") && before.Limit.Bytes > 0 && (after.Limit.Bytes == 0 || after.Limit.Bytes > before.Limit.Bytes) {
			beyond("%d bytes", after.Limit.Bytes)
		}
		if was, is := nameOf(had, link, before.Parent), nameOf(has, link, after.Parent); !group && admin.Gives("group") && was != is {
			beyond("group %q instead of %q", is, was)
		}
		if own.Gives("dscp") && fmt.Sprint(deref(after.DSCP)) != fmt.Sprint(deref(before.DSCP)) {
			beyond("DSCP %v", deref(after.DSCP))
		}
		if len(before.Queues) > 0 && len(after.Queues) > 0 && fmt.Sprintf("%+v", names(before.Queues)) != fmt.Sprintf("%+v", names(after.Queues)) {
			beyond("other queues")
		}
		marks := func(q plan.Queue) bool { return q.DSCP != nil }
		configured := func(q policy.Queue) bool { return q.DSCP != nil }
		if strings.HasPrefix(source, "label") && !has.World.Config.Labels.Allows("dscp") && !slices.ContainsFunc(own.To().Queues, configured) && slices.ContainsFunc(after.Queues, marks) {
			beyond("a DSCP in a queue")
		}
	}
	if admin.Gives("quota") && !policy.Same("quota", was.Policy, is.Policy) {
		t.Errorf("another quota than %v", admin.Texts())
	}
}

func deref(dscp *uint8) int {
	if dscp == nil {
		return -1
	}
	return int(*dscp)
}

func names(queues []plan.Queue) (list []string) {
	for _, q := range queues {
		list = append(list, q.Name)
	}
	return list
}

func nameOf(d Decision, link string, id plan.ClassID) string {
	class, _ := d.Plans[link].Class(id)
	if id == 0 {
		return ""
	}
	return class.Name
}

// saysWhatWasCut checks that a note has a sentence for each cut, and speaks of nothing that does
// not count where there is none.
func saysWhatWasCut(t *rapid.T, v Ruling) {
	for _, c := range v.Cuts {
		if !strings.Contains(v.Note, c.Text) || c.Asked == "" || !slices.Contains(policy.AllNames(), c.Field) || c.Origin == "" {
			t.Errorf("the note %q does not say %+v", v.Note, c)
		}
	}
	if len(v.Cuts) == 0 && strings.Contains(v.Note, "does not count") {
		t.Errorf("nothing was cut, and the note says %q", v.Note)
	}
}

// countsOrIsCut checks that each field that was asked for is in the policy or is a cut.
func countsOrIsCut(t *rapid.T, layer policy.Change, v Ruling) {
	has := v.Policy
	if v.timed != nil {
		has = *v.timed
	}
	asked := layer.Apply(policy.Default())
	for _, field := range layer.Given() {
		if v.Kind == workload.KindGroup && !slices.Contains(policy.FieldNames(policy.OnGroup), field) {
			continue
		}
		if v.untimed != nil && strings.HasSuffix(field, "when") {
			continue // its own times contradict each other, which the note says
		}
		if !slices.ContainsFunc(v.Cuts, func(c ceiling.Cut) bool { return c.Field == field }) && !policy.Same(field, asked, has) {
			t.Errorf("%s %q does not count and is no cut: %+v", field, layer.Texts()[field], v.Cuts)
		}
	}
}
