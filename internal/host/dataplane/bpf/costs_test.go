// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// TestConstants holds the constants that the type information does not carry
// against the header that both sides share.
func TestConstants(t *testing.T) {
	header, err := os.ReadFile("../../../../bpf/weir.h")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint64{
		"WEIR_MAX_CLASSES": plan.MaxClasses, "WEIR_MAX_WEIGHT": policy.MaxWeight,
		"WEIR_COST_ONE": costOne, "WEIR_NS_SHIFT": nsShift, "WEIR_RING": ringSize,
		"WEIR_RING_LINK": ringLink, "WEIR_TURNS": turns, "WEIR_CREDIT_PERIOD_NS": creditPeriod,
	} {
		found := regexp.MustCompile(`#define ` + name + ` (0x[0-9a-f]+|\d+)`).FindSubmatch(header)
		if found == nil {
			t.Errorf("%s is not in weir.h", name)
			continue
		}
		if got, err := strconv.ParseUint(string(found[1]), 0, 64); err != nil || got != want {
			t.Errorf("%s is %s in weir.h, %d here", name, found[1], want)
		}
	}
}

func TestClassConfig(t *testing.T) {
	link := plan.Link{Capacity: 100e6}
	for _, test := range []struct {
		name  string
		class plan.Class
		want  qdiscWeirClassConfig
	}{
		{"the example of weir.h", plan.Class{Weight: 3, Min: 20e6}, qdiscWeirClassConfig{
			ShareCost: 1024 * 10000 / 3, FloorCost: 400 << nsShift, Weight: 3,
			MinCredit: 75000, MinBps: 20e6, LimitPackets: defaultPackets, LimitBytes: 1250000,
		}},
		{"a max and limits", plan.Class{Weight: 1, Max: 8e6, Limit: plan.Limit{Packets: 7, Bytes: 9000}}, qdiscWeirClassConfig{
			ShareCost: 1024 * 10000, CeilCost: 1000 << nsShift, Weight: 1,
			MaxCredit: 30000, MaxBps: 8e6, LimitPackets: 7, LimitBytes: 9000,
		}},
	} {
		test.want.Discipline = disciplines()[discipline.SFQ]
		for i := range test.want.Queue {
			test.want.Queue[i].Cost, test.want.Queue[i].LimitPackets = costOne, queuePackets
		}
		if got := classConfig(test.class, link); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestClassSurvivesTheKernel(t *testing.T) {
	class := plan.Class{
		ID: 4, Name: "web", Weight: 7, Min: 3e6, Max: 9e6, Limit: plan.Limit{Packets: 10, Bytes: 20000},
		Discipline: discipline.LLQ, AQM: plan.AQM{Target: 5 * time.Millisecond, Interval: 100 * time.Millisecond},
		Queues: []plan.Queue{
			{Name: "voice", Rate: 1e6, Weight: 1e6, LimitPackets: 50},
			{Name: "video", Weight: 3e6, LimitPackets: queuePackets},
		},
	}
	if got := planClass(4, classConfig(class, plan.Link{Capacity: 1e9})); !got.Equal(class) {
		t.Errorf("%+v came back as %+v", class, got)
	}
}

func TestLinkConfig(t *testing.T) {
	for _, test := range []struct {
		capacity       policy.Rate
		batch, quantum uint64
	}{
		{1e6, 200_000, 25},
		{100e6, 200_000, 2500},
		{1e9, 200_000, 25_000},
		{10e9, 77_516, 96_895},
		{100e9, 50_000, 625_000},
	} {
		got := linkConfig(plan.Link{Capacity: test.capacity}, 1)
		if got.BatchNs != test.batch || got.Quantum != test.quantum {
			t.Errorf("%v: batch %d ns, quantum %d bytes; want %d and %d", test.capacity, got.BatchNs, got.Quantum, test.batch, test.quantum)
		}
	}
}

// TestFavour: a link that favours latency has short batches only, one that favours CPU longer
// ones than the long ones, and what it favours is read back from its configuration.
func TestFavour(t *testing.T) {
	for _, capacity := range []policy.Rate{1e6, 100e6, 10e9, 100e9} {
		neither := linkConfig(plan.Link{Capacity: capacity}, 1)
		for favour, want := range map[string][2]uint64{
			plan.FavourNeither: {neither.BatchNs, 4 * neither.BatchNs},
			plan.FavourLatency: {neither.BatchNs, neither.BatchNs},
			plan.FavourCPU:     {16 * neither.BatchNs, 16 * neither.BatchNs},
		} {
			got := linkConfig(plan.Link{Capacity: capacity, Favour: favour}, 1)
			if batches := [2]uint64{got.BatchNs, got.BulkBatchNs}; batches != want {
				t.Errorf("%v, favour %q: batches of %d ns, want %d", capacity, favour, batches, want)
			}
			if back := favourOf(got); back != favour {
				t.Errorf("%v: favour %q is read back as %q", capacity, favour, back)
			}
		}
	}
}

// TestEveryDisciplineIsThere holds policy's table against the kernel side's.
func TestEveryDisciplineIsThere(t *testing.T) {
	for _, name := range discipline.Names() {
		if disciplines()[discipline.Name(name)] == 0 {
			t.Errorf("%s is not in WEIR_DISCIPLINES of bpf/weir.h", name)
		}
	}
}

// TestMemory holds what docs/qdisc.md says a link takes against the object.
func TestMemory(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/qdisc.md")
	must(t, err)
	figure := func(pattern string) float64 {
		t.Helper()
		found := regexp.MustCompile(pattern).FindSubmatch(page)
		if found == nil {
			t.Fatalf("docs/qdisc.md has nothing like %s", pattern)
		}
		n, err := strconv.ParseFloat(strings.ReplaceAll(string(found[1]), ",", ""), 64)
		must(t, err)
		return n
	}
	for _, build := range []struct {
		small   bool
		classes uint32
		figure  string
	}{{false, plan.MaxClasses, `\*\*([0-9.]+) MB per link\*\*`}, {true, plan.SmallClasses, `profile: small.*\*\*([0-9.]+) MB\*\*`}} {
		spec, err := buildFor(build.small).spec()
		must(t, err)
		if got := spec.Maps[qdiscMapClassConfig].MaxEntries; got != build.classes {
			t.Errorf("%d classes, not %d", got, build.classes)
		}
		sum := contents(spec)
		// The kernel adds a quarter of a megabyte for the maps themselves, half of it for
		// the hash table of delays.
		if got := figure(build.figure) * 1e6; got < sum || got > sum+0.3e6 {
			t.Errorf("docs/qdisc.md says %.1f MB a link; the maps' contents are %.2f", got/1e6, sum/1e6)
		}
	}
	spec, err := loadQdisc()
	must(t, err)
	for name, array := range map[string]string{"flows": qdiscVarFlows, "queue_stats": qdiscVarQueueStats, "classes": qdiscVarClasses} {
		if got, want := figure("\\.bss`: `"+name+"` \\| ([0-9,]+)"), spec.Variables[array].Size(); got != float64(want) {
			t.Errorf("docs/qdisc.md says %.0f bytes of %s; %d it is", got, name, want)
		}
	}
	if got, want := figure(`A tier is ([0-9]+) kB`)*1e3, float64(spec.Maps[qdiscMapGroupTiers].ValueSize); got < want || got > want+1e3 {
		t.Errorf("docs/qdisc.md says %.0f bytes a tier; %.0f it is", got, want)
	}
}

// contents returns the bytes in an object's maps, those of groups and of delays aside, of which
// there are none at first.
func contents(spec *ebpf.CollectionSpec) (sum float64) {
	for name, m := range spec.Maps {
		if name != qdiscMapGroupTiers && name != qdiscMapDelays {
			sum += float64(m.ValueSize) * float64(m.MaxEntries)
		}
	}
	return sum
}
