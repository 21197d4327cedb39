// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/core/bound"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/texts"
	"weir/internal/core/workload"
	"weir/internal/host/discover"
	"weir/internal/test/boundtest"
)

// labelled returns a world with a container for each set of labels, c0, c1, ...
func labelled(t testing.TB, sets ...map[string]string) World {
	t.Helper()
	cfg, err := config.Parse("weir.yaml", []byte("links: [{device: eth0, egress: 100mbit}]\nlabels: {allow: [weight, min, max, discipline, queues, when, quota, zones, group]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := World{Config: cfg, Number: map[string]plan.ClassID{}, Texts: &texts.Kept{}}
	for i, labels := range sets {
		name := fmt.Sprintf("c%d", i)
		w.Found = append(w.Found, discover.Workload{Key: workload.Key(workload.KindDocker, name), Name: name, Kind: workload.KindDocker, Labels: labels,
			Devices: []discover.Device{{Name: fmt.Sprintf("veth%d", i), Ifindex: i + 7}}})
	}
	return w
}

// TestLabelsAreBounded: a label that is too long, too deep or one too many costs nothing but
// itself, and the note says by how much.
func TestLabelsAreBounded(t *testing.T) {
	many := map[string]string{"weir.weight": "7"}
	for i := range bound.Labels {
		many[fmt.Sprintf("weir.a%03d", i)] = "x"
	}
	long := "weir." + strings.Repeat("x", 1<<20)
	w := labelled(t, map[string]string{"weir.queues": "[[[[", "weir.weight": "7"},
		map[string]string{"weir.queues": strings.Repeat("[", 4096), "weir.weight": "7"}, many, map[string]string{long: "x", "weir.weight": "7"})
	w.Found[0].Oversize = map[string]int{"weir.queues": 40000} // as a source says it
	d := Decide(w)
	for name, want := range map[string]string{
		"c0": "label weir.queues: 40000 bytes, 4096 are the most; write less",
		"c1": "4096 levels, 8 are the most",
		"c2": "101 labels of Weir's, 100 are the most: none behind weir.a099 counts",
		"c3": "label weir.xxxxxxx",
	} {
		v, _ := d.Ruling(workload.Key(workload.KindDocker, name))
		if !strings.Contains(v.Note, want) || len(v.Note) > 25000 {
			t.Errorf("%s: %d bytes of note: %.200s, want %s", name, len(v.Note), v.Note, want)
		}
		if counts := name != "c2"; counts != (v.Policy.Weight == 7) {
			t.Errorf("%s: weight %d", name, v.Policy.Weight)
		}
	}
}

// TestSecondDecisionParsesNothing: what labels say is kept by their text.
func TestSecondDecisionParsesNothing(t *testing.T) {
	w := labelled(t, map[string]string{"weir.queues": "{a: {match: [{udp: 5}]}, b: {}}", "weir.discipline": "pq"}, map[string]string{"weir.queues": "{{{", "weir.weight": "x"})
	d := Decide(w)
	if w.Texts.Parsed != 4 {
		t.Fatalf("%d texts were parsed, 4 are there", w.Texts.Parsed)
	}
	next := d.World.Clone()
	next.Found[0].Labels["weir.weight"] = "3"
	if Decide(next); w.Texts.Parsed != 5 {
		t.Errorf("%d texts were parsed anew, one has changed", w.Texts.Parsed-4)
	}
	first, _ := d.Ruling("docker:c0")
	if len(first.Policy.Queues) != 2 {
		t.Errorf("%d queues", len(first.Policy.Queues))
	}
}

// TestHostileLabels: reading the labels of one container costs what one input may, however they
// look, and the others have their classes.
func TestHostileLabels(t *testing.T) {
	for _, field := range []string{"weir.queues", "weir.when", "weir.quota", "weir.zones", "weir.weight", "weir.group", "weir.ingress.queues"} {
		for _, length := range []int{bound.Label, 40000} {
			for _, shape := range boundtest.Shapes(length) {
				w := labelled(t, map[string]string{field: shape}, map[string]string{"weir.weight": "7"})
				boundtest.Hold(t, func() {
					w.Texts = &texts.Kept{}
					d := Decide(w)
					if v, _ := d.Ruling("docker:c1"); v.Policy.Weight != 7 || v.Class == 0 {
						t.Errorf("the other has weight %d and class %d", v.Policy.Weight, v.Class)
					}
				})
				if t.Failed() {
					t.Fatalf("%s=%.40q, %d bytes", field, shape, length)
				}
			}
		}
	}
}

// TestPresetsAtTimes: queues that name presets as often as they may, in a policy that differs at
// times as often as it may. It is checked for each of its times.
func TestPresetsAtTimes(t *testing.T) {
	var queues strings.Builder
	for q := range policy.MaxQueues {
		fmt.Fprintf(&queues, "q%d: {match: [", q)
		for vlan := range 8 {
			fmt.Fprintf(&queues, "{preset: ssh, vlan: %d},", 8*q+vlan)
		}
		queues.WriteString("]},")
	}
	labels := map[string]string{}
	for _, direction := range []string{"weir.", "weir.ingress."} {
		labels[direction+"discipline"], labels[direction+"queues"] = "pq", "{"+queues.String()+"}"
		for _, field := range boundtest.Fields(bound.Label) {
			if field[0] == "when" {
				labels[direction+"when"] = field[1]
			}
		}
	}
	w := labelled(t, labels)
	w.Now = time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	cost := boundtest.Measure(func() {
		if v, _ := Decide(w).Ruling("docker:c0"); len(v.Policy.Queues) != policy.MaxQueues || len(v.Policy.When) != 16 || v.Note != "" {
			t.Errorf("%d queues, %d times, %s", len(v.Policy.Queues), len(v.Policy.When), v.Note)
		}
	})
	if cost.Bytes > 32<<20 {
		t.Errorf("%d MB allocated in %v", cost.Bytes>>20, cost.CPU)
	}
}

// TestAllocationForThousands: a request for more pods than Kubernetes lets have a claim is refused
// before anything is decided about them.
func TestAllocationForThousands(t *testing.T) {
	d := Decide(labelled(t, nil))
	a := Allocation{Name: "u1", For: "shop/uplink", Mins: []LinkMin{{"eth0", 1e6}}}
	for i := range 7000 { // as many as a body has room for
		a.Pods = append(a.Pods, fmt.Sprintf("shop/%x", i))
	}
	boundtest.Hold(t, func() {
		if r, err := d.Allocate(a); err == nil {
			_, err = d.Try(r)
			t.Errorf("tried: %.200v", err)
		} else if !strings.Contains(err.Error(), "7000 pods, 256 are the most") {
			t.Error(err)
		}
	})
	a.Pods = a.Pods[:256]
	boundtest.Hold(t, func() {
		r, err := d.Allocate(a)
		if err == nil {
			_, err = d.Try(r)
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// BenchmarkDecideAgain is a decision about labels that an earlier one has read: 100 containers
// with 4 KiB of queues each.
func BenchmarkDecideAgain(b *testing.B) {
	const queue = "q%d: {match: [{udp: [1, 2, 3, 4, 5, 6, 7, 8]}]}\n"
	var sets []map[string]string
	for i := range 100 {
		var text strings.Builder
		for n := range 15 {
			fmt.Fprintf(&text, queue, n*100+i)
		}
		sets = append(sets, map[string]string{"weir.discipline": "pq", "weir.queues": text.String()})
	}
	for _, kept := range []bool{false, true} {
		b.Run(fmt.Sprintf("kept=%v", kept), func(b *testing.B) {
			w := labelled(b, sets...)
			if !kept {
				w.Texts = nil
			}
			Decide(w)
			for b.Loop() {
				Decide(w)
			}
		})
	}
}

// TestDrawnLabels: 10,000 containers with labels drawn at random, ten at a decision beside one
// whose labels are right. None costs more than one input may, and the one has its weight, its
// class and its queues.
func TestDrawnLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 1))
	names := append(policy.AllNames(), "nosuch", strings.Repeat("x", 300))
	right := map[string]string{"weir.weight": "7", "weir.discipline": "pq", "weir.queues": "{a: {match: [{udp: 5}]}, b: {}}"}
	for range 1000 {
		sets := []map[string]string{right}
		for range 10 {
			labels := map[string]string{}
			for name, text := range boundtest.Named(r, names, bound.Label+64) {
				labels["weir."+strings.ReplaceAll(name, "_", "-")] = text
			}
			if r.IntN(50) == 0 {
				labels["weir."+boundtest.Draw(r, 1<<20)] = boundtest.Draw(r, 1<<20)
			}
			sets = append(sets, labels)
		}
		w := labelled(t, sets...)
		boundtest.Hold(t, func() {
			w.Texts = &texts.Kept{}
			v, _ := Decide(w).Ruling("docker:c0")
			if v.Policy.Weight != 7 || v.Class == 0 || len(v.Policy.Queues) != 2 || v.Note != "" {
				t.Errorf("weight %d, class %d, %d queues, %s", v.Policy.Weight, v.Class, len(v.Policy.Queues), v.Note)
			}
		})
		if t.Failed() {
			t.Fatalf("%.300q", sets)
		}
	}
}
