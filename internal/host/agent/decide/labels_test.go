// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"strings"
	"testing"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// container is a workload with labels such as "weir.min=20mbit".
func container(name string, labels ...string) discover.Workload {
	w := discover.Workload{Key: workload.Key(workload.KindDocker, name), Name: name, Kind: workload.KindDocker,
		Labels: map[string]string{}, Devices: []discover.Device{{Name: "veth" + name, Ifindex: indexOf(name)}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		w.Labels[key] = value
	}
	return w
}

// indexOf gives names that begin differently different indices.
func indexOf(name string) int { return 1000 + int(name[0]) }

// knowing is a world with a configuration, whose link is eth0 with 100 Mbit/s unless it says
// otherwise.
func knowing(t testing.TB, text string, found ...discover.Workload) World {
	t.Helper()
	if !strings.Contains(text, "links:") {
		text = "links: [{device: eth0, egress: 100mbit}]\n" + text
	}
	c, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return World{Config: c, Found: found, Set: map[string]policy.Change{}, Groups: map[string]policy.Change{}}
}

// planned returns what eth0's plan has for a workload: "weight 3 min 20 Mbit/s in office".
func (d Decision) planned(name string) string {
	for _, class := range d.Plans["eth0"].Classes {
		if class.Name != name {
			continue
		}
		text := fmt.Sprintf("weight %d", class.Weight)
		if class.Min > 0 {
			text += fmt.Sprintf(" min %v", class.Min)
		}
		if class.Max > 0 {
			text += fmt.Sprintf(" max %v", class.Max)
		}
		if class.Burst > 0 {
			text += fmt.Sprintf(" burst %d", class.Burst)
		}
		if class.Limit != (plan.Limit{}) {
			text += fmt.Sprintf(" limit %d/%d", class.Limit.Packets, class.Limit.Bytes)
		}
		if group, ok := d.Plans["eth0"].Class(class.Parent); ok && class.Parent != 0 {
			text += " in " + group.Name
		}
		return text
	}
	return "nothing"
}

// expectNote checks that a workload's note has each of the sentences, and that there is none
// if there are none.
func (d Decision) expectNote(t *testing.T, name string, sentences ...string) {
	t.Helper()
	v, err := d.Resolve(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(sentences) == 0 && v.Note != "" {
		t.Errorf("%s has the note %q", name, v.Note)
	}
	for _, sentence := range sentences {
		if !strings.Contains(v.Note, sentence) {
			t.Errorf("the note %q does not say %q", v.Note, sentence)
		}
	}
}

// A label takes nothing that the administrator has not given: the administrator's max and min
// are ceilings, the group stays, and the rest of the labels holds.
func TestLabelsStayBelowTheAdministrator(t *testing.T) {
	const file = `
defaults: {max: 50mbit}
labels: {allow: [weight, min, max, burst, group, reserve, limit_packets]}
groups: {office: {weight: 1}, tenant: {weight: 9}}
workloads:
  web: {min: 10mbit, group: office, limit_packets: 100}
  share: {max: 40%}
  paced: {reserve: 5mbit}
  bursty: {max: 10mbit, burst: 5MB}
  unbound: {max: none}`
	for _, test := range []struct {
		name, labels, planned string
		note                  []string // "" = none at all
	}{
		{"web", "weir.weight=5 weir.min=30mbit weir.max=80mbit weir.group=tenant weir.limit-packets=5000",
			"weight 5 min 10 Mbit/s max 50 Mbit/s limit 100/0 in office",
			[]string{"label weir.max 80mbit does not count: the administrator's max is 50mbit; write 50mbit or less, or raise it in weir.yaml",
				"label weir.min 30mbit does not count: the administrator's min is 10mbit",
				"label weir.group tenant does not count: the administrator's group is office",
				"label weir.limit-packets 5000 does not count: the administrator's limit_packets is 100"}},
		{"web", "weir.min=4mbit weir.max=20mbit weir.limit-packets=50", "weight 1 min 4 Mbit/s max 20 Mbit/s limit 50/0 in office", nil},
		// A max is not taken away, and a share of the link is compared as what it is there.
		{"web", "weir.max=none", "weight 1 min 10 Mbit/s max 50 Mbit/s limit 100/0 in office", []string{"label weir.max none does not count"}},
		{"share", "weir.max=41mbit", "weight 1 max 40 Mbit/s", []string{"label weir.max 41mbit does not count: the administrator's max is 40%"}},
		{"share", "weir.max=39mbit", "weight 1 max 39 Mbit/s", nil},
		{"free", "weir.min=10mbit weir.group=tenant", "weight 1 min 10 Mbit/s max 50 Mbit/s in tenant", nil}, // the administrator says nothing else
		{"paced", "weir.reserve=none", "", []string{"label weir.reserve none does not count: the administrator's reserve is 5mbit"}},
		{"paced", "weir.reserve=6mbit", "", []string{"label weir.reserve 6mbit does not count"}},
		// A burst is above the administrator's max.
		{"free", "weir.burst=1MB", "weight 1 max 50 Mbit/s", []string{"label weir.burst 1MB does not count: the administrator's burst is none"}},
		{"free", "weir.max=20mbit weir.burst=1MB", "weight 1 max 20 Mbit/s", []string{"label weir.burst 1MB does not count"}},
		{"bursty", "weir.burst=6MB", "weight 1 max 10 Mbit/s burst 5000000", []string{"label weir.burst 6MB does not count: the administrator's burst is 5MB"}},
		{"bursty", "weir.burst=4MB", "weight 1 max 10 Mbit/s burst 4000000", nil},
		{"unbound", "weir.max=20mbit weir.burst=1MB", "weight 1 max 20 Mbit/s burst 1000000", nil},
		// A reservation is a min by another name.
		{"web", "weir.reserve=30mbit", "weight 1 min 10 Mbit/s max 50 Mbit/s limit 100/0 in office",
			[]string{"label weir.reserve 30mbit does not count: the administrator's min is 10mbit"}},
	} {
		t.Run(test.name+" "+test.labels, func(t *testing.T) {
			d := Decide(knowing(t, file, container(test.name, strings.Fields(test.labels)...)))
			if got := d.planned(test.name); test.planned != "" && got != test.planned {
				t.Errorf("planned %s, want %s", got, test.planned)
			}
			d.expectNote(t, test.name, test.note...)
			if got := d.planned("host") + ", " + d.planned("tenant"); got != "weight 1 max 50 Mbit/s, weight 9" && test.name != "free" {
				t.Errorf("host and tenant: %s", got)
			}
			if got, own := d.planned("office"), test.name == "web"; own != strings.Contains(got, "min") {
				t.Errorf("office, which has its members' mins: %s", got)
			}
		})
	}
}

// Labels say what weir.yaml lets them: by default neither a group nor a DSCP.
func TestLabelsThatAreNotAllowed(t *testing.T) {
	for _, test := range []struct {
		name, file string
		labels     []string
		planned    string
		note       []string
	}{
		{"by default", "groups: {tenant: {weight: 9}}", []string{"weir.weight=3", "weir.group=tenant", "weir.dscp=ef", "weir.ingress.dscp=ef"}, "weight 3",
			[]string{"label weir.group does not count: labels may not say group here; allow it in weir.yaml, labels: {allow: [..., group]}, or use weir set",
				"label weir.dscp does not count", "label weir.ingress.dscp does not count"}},
		{"none at all", "labels: {allow: []}", []string{"weir.weight=3", "weir.min=5mbit"}, "weight 1",
			[]string{"label weir.weight does not count", "label weir.min does not count"}},
		{"a DSCP inside of queues", "", []string{"weir.discipline=pq", "weir.queues={a: {dscp: ef, match: [{udp: 5001}]}, b: {}}"}, "weight 1",
			[]string{"label weir.queues: dscp of queue a does not count: labels may not say dscp here"}},
		{"wrong ones", "", []string{"weir.wieght=3", "weir.min=20mbps", "weir.max=50mbit"}, "weight 1 max 50 Mbit/s",
			[]string{"did you mean weir.weight?", "label weir.min", "160mbit"}},
		{"the cluster's", "", []string{"weir.pinned=true", "weir.apart=db", "weir.move=m-1"}, "weight 1", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := Decide(knowing(t, test.file, container("web", test.labels...)))
			if got := d.planned("web"); got != test.planned {
				t.Errorf("planned %s, want %s", got, test.planned)
			}
			d.expectNote(t, "web", test.note...)
			v, _ := d.Resolve("web")
			if v.State != workload.StateActive {
				t.Errorf("state %s", v.State)
			}
			for _, q := range v.Policy.Queues {
				if q.DSCP != nil {
					t.Errorf("queue %s has a DSCP", q.Name)
				}
			}
			if strings.Contains(test.name, "queues") && len(v.Policy.Queues) != 2 {
				t.Errorf("queues %+v", v.Policy.Queues)
			}
		})
	}
}

// The author of an image is not the one who runs it. What the container says anew is the
// container's.
func TestLabelsOfAnImage(t *testing.T) {
	for file, want := range map[string]struct {
		planned string
		note    []string
	}{
		"": {"weight 1 max 60 Mbit/s",
			[]string{"labels weir.min, weir.weight do not count: they come with the image; give them to the container, or allow those of images in weir.yaml, labels: {images: true}"}},
		"labels: {images: true}": {"weight 1000 min 50 Mbit/s max 60 Mbit/s", nil},
	} {
		w := container("web", "weir.weight=1000", "weir.min=50mbit", "weir.max=60mbit")
		w.ImageLabels = map[string]string{"weir.weight": "1000", "weir.min": "50mbit", "weir.max": "70mbit"}
		d := Decide(knowing(t, file, w))
		if got := d.planned("web"); got != want.planned {
			t.Errorf("%q: planned %s, want %s", file, got, want.planned)
		}
		d.expectNote(t, "web", want.note...)
	}
}

// TestEmptyLabels: an empty label says nothing; it takes no max away that the workload has
// otherwise, and takes back what the image says.
func TestEmptyLabels(t *testing.T) {
	w := container("web", "weir.max=", "weir.weight= ", "weir.min=5mbit")
	w.ImageLabels = map[string]string{"weir.max": "90mbit", "weir.weight": "7"}
	d := Decide(knowing(t, "\ndefaults: {max: 20mbit}\nlabels: {images: true}", w))
	if got := d.planned("web"); got != "weight 1 min 5 Mbit/s max 20 Mbit/s" {
		t.Errorf("planned %s", got)
	}
	d.expectNote(t, "web")
}

// Each layer counts over the ones before it, field by field, and the origin of a field says
// which one it comes from.
func TestLayers(t *testing.T) {
	w := knowing(t, `
defaults: {weight: 2}
workloads:
  "w*": {max: 50mbit, min: 15mbit}
  web: {max: 60mbit}`, container("web", "weir.min=10mbit", "weir.limit-packets=500"), container("db"))
	for _, test := range []struct {
		name, set string
		want      map[string]string // planned
		origin    map[string]string // of web
	}{
		{"labels over configuration over default", "", map[string]string{"host": "weight 2", "web": "weight 2 min 10 Mbit/s max 60 Mbit/s limit 500/0", "db": "weight 2"},
			map[string]string{"weight": OriginConfig, "min": OriginLabel, "max": OriginConfig, "limit_packets": OriginLabel, "limit_bytes": OriginDefault}},
		{"run time over all", "weight 7 max none", map[string]string{"host": "weight 2", "web": "weight 7 min 10 Mbit/s limit 500/0", "db": "weight 2"},
			map[string]string{"weight": OriginSet, "min": OriginLabel, "max": OriginSet, "limit_packets": OriginLabel, "limit_bytes": OriginDefault}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := w.Clone()
			w.Set["docker:web"] = policy.MustChange(strings.Fields(test.set)...)
			d := Decide(w)
			for name, want := range test.want {
				if got := d.planned(name); got != want {
					t.Errorf("%s: planned %s, want %s", name, got, want)
				}
			}
			v, _ := d.Resolve("web")
			for field, want := range test.origin {
				if v.Origin[field] != want {
					t.Errorf("origin of %s is %q, want %q", field, v.Origin[field], want)
				}
			}
		})
	}
}

// A compose project is said by a label: it is a group only where labels may say one, also of a
// container that comes from another node.
func TestComposeProjectIsALabel(t *testing.T) {
	for file, want := range map[string]struct{ planned, note string }{
		"":                                 {"weight 1", "label com.docker.compose.project does not put it into group tenant: labels may not say group here; allow it in weir.yaml, labels: {allow: [..., group]}, or use weir set"},
		"labels: {allow: [weight, group]}": {"weight 1 in tenant", ""},
	} {
		w := container("web")
		w.Group = "tenant"
		d := Decide(knowing(t, file+"\ngroups: {tenant: {weight: 9}}", w))
		v, _ := d.Resolve("web")
		if got := d.planned("web"); got != want.planned || v.Note != want.note {
			t.Errorf("%q: planned %s, note %q, want %+v", file, got, v.Note, want)
		}
	}
	machine := container("vm")
	machine.Kind, machine.Group = workload.KindVM, "tenant" // what the host's own QEMU says
	if got := Decide(knowing(t, "groups: {tenant: {weight: 9}}", machine)).planned("vm"); got != "weight 1 in tenant" {
		t.Errorf("an interface of a machine: %s", got)
	}
}
