// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/test/boundtest"
)

// line is a decision as text: "shop/web max=40mbit weight=3", "group ns.shop max=1gbit", and
// each fault.
func lines(d Wanted) []string {
	var list []string
	texts := func(c policy.Change) string {
		text, t := "", c.Texts()
		for _, field := range slices.Sorted(maps.Keys(t)) {
			text += " " + field + "=" + t[field]
		}
		return text
	}
	for _, w := range d.Workloads {
		line := w.Key() + texts(w.Change)
		if w.Weight != 0 {
			line += fmt.Sprintf(", else weight %d", w.Weight)
		}
		list = append(list, line)
	}
	for _, g := range d.Groups {
		list = append(list, "group "+g.Name+texts(g.Change))
	}
	for _, f := range d.Faults {
		list = append(list, fmt.Sprintf("%s %s: %s", f.Kind, f.Name, f.Err.Error()))
	}
	return list
}

func annotated(pairs ...string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

func TestDecide(t *testing.T) {
	weights := map[QoSClass]uint32{Guaranteed: 3, Burstable: 2}
	web := func(pairs ...string) []Pod {
		return []Pod{{Namespace: "shop", Name: "web", Sandbox: "s", QoS: Guaranteed, Annotations: annotated(pairs...)}}
	}
	for _, tt := range []struct {
		name  string
		world NodeInput
		want  []string
	}{
		{"nothing", NodeInput{}, nil},
		{"defaults", NodeInput{Pods: web()}, []string{"shop/web"}},
		{"weight by class", NodeInput{Config: Config{Weights: weights}, Pods: web()}, []string{"shop/web, else weight 3"}},
		{"an annotation counts before the class", NodeInput{Config: Config{Weights: weights}, Pods: web("weir.dev/weight", "7")}, []string{"shop/web weight=7, else weight 3"}},
		{"a wrong weight leaves that of the class", NodeInput{Config: Config{Weights: weights}, Pods: web("weir.dev/weight", "0")},
			[]string{"shop/web, else weight 3", `Pod web: annotation weir.dev/weight "0": out of range; write a whole number from 1 to 10000; only the proportions between weights count`}},
		{"quantities of Kubernetes", NodeInput{Pods: web("kubernetes.io/egress-bandwidth", "10M", "kubernetes.io/ingress-bandwidth", "1.5Gi")},
			[]string{"shop/web ingress.max=1.610612736gbit max=10mbit"}},
		{"one's own before those", NodeInput{Pods: web("kubernetes.io/egress-bandwidth", "10M", "weir.dev/max", "20mbit")}, []string{"shop/web max=20mbit"}},
		{"a wrong one of one's own leaves those", NodeInput{Pods: web("kubernetes.io/egress-bandwidth", "10M", "weir.dev/max", "20m")},
			[]string{"shop/web max=10mbit", `Pod web: annotation weir.dev/max "20m": m is milli to Kubernetes, mega to others; write 20M or 20mbit`}},
		{"500m is half a bit", NodeInput{Pods: web("kubernetes.io/egress-bandwidth", "500m")},
			[]string{"shop/web", `Pod web: annotation kubernetes.io/egress-bandwidth "500m": m is a thousandth: this is 0.500 bit/s; write M for Mbit/s`}},
		{"discipline with queues", NodeInput{Pods: web("weir.dev/discipline", "llq", "weir.dev/queues", "voice: {rate: 1mbit, match: [{udp: 5001}]}\nrest: {}")},
			[]string{`shop/web discipline=llq queues=[{"name":"voice","rate":"1mbit","match":[{"udp":5001}]},{"name":"rest"}]`}},
		{"min above max", NodeInput{Pods: web("weir.dev/min", "30M", "weir.dev/max", "20M", "weir.dev/weight", "2")},
			[]string{"shop/web max=20mbit weight=2", `Pod web: annotation weir.dev/min "30mbit": 30 Mbit/s is above the max, 20 Mbit/s; lower min or raise max`}},
		{"the same of ingress", NodeInput{Pods: web("weir.dev/ingress.min", "30M", "kubernetes.io/ingress-bandwidth", "20M")},
			[]string{"shop/web ingress.max=20mbit", `Pod web: annotation weir.dev/ingress.min "30mbit": 30 Mbit/s is above the max, 20 Mbit/s; lower min or raise max`}},
		{"unknown", NodeInput{Pods: web("weir.dev/wieght", "3", "weir.dev/max", "20M", "example.com/weight", "x")},
			[]string{"shop/web max=20mbit", `Pod web: annotation weir.dev/wieght "3": is not known here; did you mean "weight"?`}},
		{"forbidden", NodeInput{Config: Config{Forbidden: []string{"min"}}, Pods: web("weir.dev/min", "30M", "weir.dev/ingress.min", "10M")},
			[]string{"shop/web ingress.min=10mbit", `Pod web: annotation weir.dev/min "30M": annotations may not say this on this node; ask the node's administrator, or take it away`}},
		{"namespace", NodeInput{Pods: web("weir.dev/weight", "2"), Namespaces: map[string]map[string]string{
			"shop": annotated("weir.dev/max", "40M", "weir.dev/weight", "5"), "other": annotated("weir.dev/max", "40M")}},
			[]string{"shop/web group=ns.shop weight=2", "group ns.shop max=40mbit weight=5"}},
		{"namespace with faults", NodeInput{Pods: web(), Namespaces: map[string]map[string]string{
			"shop": annotated("weir.dev/max", "40m", "weir.dev/discipline", "llq", "weir.dev/min", "1M", "kubernetes.io/egress-bandwidth", "1M")}},
			[]string{"shop/web group=ns.shop", "group ns.shop min=1mbit",
				`Namespace shop: annotation weir.dev/discipline "llq": is not known here; known here: weight, min, max, burst, zones, quota, when`,
				`Namespace shop: annotation weir.dev/max "40m": m is milli to Kubernetes, mega to others; write 40M or 40mbit`}},
		{"groups inside of a namespace", NodeInput{Pods: append(web("weir.dev/group", "batch"), Pod{Namespace: "a", Name: "b", Annotations: annotated("weir.dev/group", "batch")})},
			[]string{"a/b group=ns.a.batch", "shop/web group=ns.shop.batch", "group ns.a.batch", "group ns.shop.batch"}},
		{"a group in a namespace that is one", NodeInput{Pods: web("weir.dev/group", "batch"), Namespaces: map[string]map[string]string{"shop": annotated("weir.dev/max", "40M")}},
			[]string{"shop/web group=ns.shop", "group ns.shop max=40mbit",
				`Pod web: annotation weir.dev/group "batch": the namespace shop is a group already, by its own annotations, and a group has no groups in it; take this annotation away, or the weir.dev annotations of the namespace`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := lines(Decide(tt.world)); !slices.Equal(got, tt.want) {
				t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// wrong are values that no field could have.
var wrong = map[string][]string{
	"rate":       {"x", "-1M", "20m", "10MB", "10mbps", "0", "0M", "1e99", "1.2.3M", "10 M B", "10mbit10", "%", "101%", "-5%", "25%%", "M", "1000P", "500bit", "0.5kbit", strings.Repeat("9", 300)},
	"bandwidth":  {"x", "-1M", "500m", "10MB", "10mbps", "0", "0M", "1e99", "1.2.3M", "10 M", "10mbit", "25%", "none", "M", "1001P", "999", "0.9k", "", "1k1", strings.Repeat("9", 300)},
	"weight":     {"0", "-1", "x", "1.5", "10001", "1e3", "3 4", "0x10", "3;", "three", "1,000", "99999999999999999999", "+", "-", "½", "3%", "3mbit", "none", "", "null"},
	"count":      {"-1", "x", "1.5", "1e3", "3 4", "0x10", "3;", "three", "1,000", "99999999999999999999", "+", "-", "½", "3%", "3mbit", "none", "", "null", "18446744073709551616", "1_000"},
	"discipline": {"x", "LIFO", "pqq", "sfq,pq", "0", "none", "[llq]", "{}", "llq:", "s f q", "drr", "htb", "fq_codel", "cake", "-", "1", "true", "null", "llq\nllq", "??"},
	"queues":     {"x: {", "a: {rate: x}", "a: {match: 1}", "[1,2]", "a: {unknown: 1}", "1", "a: {rate: -1mbit}", "a: [1]", "&x a: *x", "a: {match: [{udp: 70000}]}", "a: {match: [{src: x}]}", "a: {match: [{proto: 999}]}", "- - -", "a: {limit: x}", "a: {priority: -1}", "a: {dscp: 64}", "true", "{a: {}}}", "a: {weight: 0}", "a: {<<: {rate: 1mbit}}"},
	"aqm":        {"x", "5m", "5ms/", "/100ms", "5/100", "-5ms/100ms", "5ms/100ms/1s", "0/0", "100ms/5ms", "5ms/1h", "on/off", "5mss/100ms", "5ms 100ms", "5ms,100ms", "1e9s/1e9s", "none/none", "??", "null", "truth", "1"},
	"dscp":       {"64", "-1", "x", "af99", "ef,cs1", "0x100", "1.5", "cs8", "ef ef", "be+", "99999999999", "??", "true", "null", "[]", "{}", "46%", "ef;", "+", "½"},
	"burst":      {"x", "-1MB", "0", "0MB", "20m", "20mbit", "20mbps", "1e99", "1.2.3MB", "20 M B", "MB", "%", "25%", "20MB 30MB", "20MB,", "null", "[]", "{}", "true", strings.Repeat("9", 300)},
	"isolation":  {"x", "flow", "host", "src", "dst", "srchost dsthost", "srchost,dsthost", "triple-isolate", "dual-srchost", "none", "on", "off", "0", "1", "true", "null", "[]", "{}", "??", "hosts;"},
	"when":       {"x", "mon", "mon 08:00-18:00", "weight 8", "mon 8-18 weight 8", "xyz 08:00-18:00 weight 8", "mon 08:00-25:00 weight 8", "mon 24:00-08:00 weight 8", "mon 08:60-09:00 weight 8", "mon 08:00-08:00 weight 8", "mon 08:00-18:00 Mars/Base weight 8", "mon 08:00-18:00 weight", "mon 08:00-18:00 weight 0", "mon 08:00-18:00 min 20m", "mon 08:00-18:00 dscp ef", "mon 08:00-18:00 weight 2 weight 3", "mon-fri 08:00-18:00 weight 2; fri 17:00-19:00 weight 3", "[{from: 08:00, weight: 2}]", "[{from: 08:00, to: 09:00}]", "[{", "{from: 08:00, to: 09:00, wieght: 2}"},
	"quota":      {"x", "500GB", "egress 0 per month then block", "egress 0GB per month then tell", "egress 1GB", "egress 1GB per month", "egress 1GB then block", "per month then block", "egress 1GB per year then block", "egress 1GB per 5h then block", "egress 1GB per 0h then tell", "egress 1gbit per month then tell", "egress -1GB per month then tell", "egress 1GB per month from 32 then tell", "egress 1GB per week from 1 then tell", "egress 1GB per day from 25:00 then tell", "egress 1GB per month timezone Mars/Base then tell", "egress 1GB per month then max", "egress 1GB per month then max 0", "egress 1GB per month then max 10MB", "egress 1GB per month then stop", "egress 1GB egress 1GB per month then tell", "{egress: 1GB}", "[1]", "{"},
	"zones":      {"x", "lan", "lan max", "lan max x", "lan max 5mbit wan", "max 5mbit lan", "lan limit 5mbit", "lan max 10mbps", "lan weight 0", "lan weight x", "lan min -1M", "LAN max 5mbit", "lan max 5mbit; lan min 1mbit", "lan max 5mbit;", "; lan max 5mbit", "lan max 101%", "ingress max 5mbit", "lan dscp ef", "lan max 5mbit min", "{lan: {max: 5mbit}}", "[1]", "lan=5mbit", "lan min 10mbit max 5mbit"},
	"group":      {"a b", "-a", ".a", "a/b", "ä", "a:b", "a\nb", strings.Repeat("a", 200), "*", "?", "[]", "{}", "a,b", "a;b", "a=b", "#", "'a'", `"a"`, "@a", "a!"},
}

func kindOf(field string) string {
	switch name := policy.FieldOf(field).Name; name {
	case "min", "max", "reserve":
		return "rate"
	case "limit_packets", "limit_bytes":
		return "count"
	default:
		return name
	}
}

// TestWrongValues: each annotation with 20 wrong values, beside right ones: one fault, with
// annotation, value and remedy, and the rest holds.
func TestWrongValues(t *testing.T) {
	names := map[string]string{}
	for _, field := range policy.AllNames() {
		names[Annotation(field)] = kindOf(field)
	}
	for name := range Bandwidth {
		names[name] = "bandwidth"
	}
	for name, kind := range names {
		if len(wrong[kind]) < 20 {
			t.Errorf("%s: only %d wrong values of kind %s", name, len(wrong[kind]), kind)
		}
		for _, value := range wrong[kind] {
			beside := "weir.dev/limit-packets"
			if name == beside {
				beside = "weir.dev/weight"
			}
			d := Decide(NodeInput{Pods: []Pod{{Namespace: "shop", Name: "web", Annotations: annotated(name, value, beside, "7")}}})
			if len(d.Faults) != 1 {
				t.Errorf("%s: %q has %d faults: %q", name, value, len(d.Faults), lines(d))
				continue
			}
			e := d.Faults[0].Err
			if e.Field != "annotation "+name || e.Msg == "" || e.Remedy == "" || e.Value == "" && value != "" || len(e.Error()) > 600 {
				t.Errorf("%s: %q: %q", name, value, e.Error())
			}
			want := map[string]string{strings.ReplaceAll(strings.TrimPrefix(beside, Prefix), "-", "_"): "7"}
			if got := d.Workloads[0].Change.Texts(); !maps.Equal(got, want) {
				t.Errorf("%s: %q: %v holds, want %v", name, value, got, want)
			}
		}
	}
}

func FuzzAnnotations(f *testing.F) {
	f.Add("weir.dev/min", "20M", "weir.dev/max", "10M")
	f.Add("kubernetes.io/egress-bandwidth", "500m", "weir.dev/queues", "a: {}")
	for _, field := range boundtest.Fields(bound.Label) {
		f.Add("weir.dev/discipline", "pq", "weir.dev/"+field[0], field[1])
	}
	for _, text := range boundtest.Texts(bound.Annotations) {
		f.Add("weir.dev/queues", text, "kubernetes.io/egress-bandwidth", text)
		f.Add("weir.dev/when", text, "weir.dev/quota", text)
	}
	f.Fuzz(func(t *testing.T, a, x, b, y string) {
		boundtest.Hold(t, func() {
			d := Decide(NodeInput{Pods: []Pod{{Namespace: "n", Name: "p", Annotations: annotated(a, x, b, y)}}, Namespaces: map[string]map[string]string{"n": annotated(b, y)}})
			if len(d.Workloads) != 1 || d.Workloads[0].Change.Check() != nil {
				t.Errorf("%+v", d)
			}
			for _, fault := range d.Faults {
				if fault.Err.Msg == "" || fault.Err.Remedy == "" {
					t.Errorf("%+v", fault)
				}
			}
		})
	})
}
