// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/hosttest"
	"weir/internal/host/dataplane/mark"
)

var seed = flag.Uint64("seed", 0, "what orders of others are drawn; 0: others each time")

// step is one event of a drawn order.
type step struct {
	what  string // begin, kill, adopt, end: Weir's; come, go: of others
	which int    // of others
	head  bool   // it comes to the head
}

// draw draws an order: others come and go before, while and after Weir begins, is killed, finds
// what it left, and cleans up. No program is put at the head while the agent is dead: Weir goes
// first again only as long as there is an agent.
func draw(r *rand.Rand, here []int) (steps []step) {
	weir := []string{"begin", "kill", "adopt", "end"}
	dead, present := false, []int{}
	r.Shuffle(len(here), func(i, j int) { here[i], here[j] = here[j], here[i] })
	absent := here[:min(len(here), 8)]
	for len(weir)+len(absent)+len(present) > 0 {
		switch n := r.IntN(len(weir)*2 + len(absent)*2 + len(present)); {
		case n < len(weir)*2:
			steps = append(steps, step{what: weir[0]})
			dead = weir[0] == "kill"
			weir = weir[1:]
		case n < len(weir)*2+len(absent)*2:
			steps = append(steps, step{what: "come", which: absent[0], head: others[absent[0]].head && !dead})
			present, absent = append(present, absent[0]), absent[1:]
		default:
			if len(weir) == 0 && r.IntN(2) == 0 {
				present = nil // some stay
				continue
			}
			i := r.IntN(len(present))
			steps = append(steps, step{what: "go", which: present[i]})
			present = slices.Delete(present, i, i+1)
		}
	}
	return steps
}

// story lives through an order, with or without Weir, and returns what every other one counted and
// what arrived after each event, and the hooks at the end.
type story struct {
	*bed
	w        *wires
	present  map[int]*placed
	backends []dataplane.Backend // the ingress, with a zone that has the server the zone, the link; nil = there is no agent
	wanted   []plan.State
	offered  []uint64 // to class 1 of each, by a burst
	zone     bool
	lines    []string
}

func tell(t *testing.T, kind string, steps []step, zone, weir bool) []string {
	s := begin(t, kind, zone)
	for _, step := range steps {
		s.live(step, weir)
	}
	for _, text := range s.hooks() {
		s.lines = append(s.lines, fleeting.ReplaceAllString(text, ""))
	}
	return s.lines
}

// begin is the beginning of a story.
func begin(t *testing.T, kind string, zone bool) *story {
	b := crowded(t, kind)
	class := plan.Class{Weight: 1}
	in, out := b.state(100*mbit, class, class), b.state(100*mbit, class, class)
	out.Link.Direction = ""
	s := &story{bed: b, w: b.wire(), present: map[int]*placed{}, wanted: []plan.State{in, out}, offered: []uint64{ports * perFlow, ports * perFlow}, zone: zone}
	if zone {
		s.wanted[1].Classes = append(s.wanted[1].Classes, plan.Class{ID: zoneClass, Name: "zone wan", Weight: 1, Min: 50 * mbit, Discipline: discipline.FIFO})
		s.wanted = slices.Insert(s.wanted, 1, b.inZone())
		s.offered = append(s.offered, 0) // there the zone is one class
	}
	return s
}

// crowded is a bed with an IDS, and with the qdiscs of others at port, bridge and link.
func crowded(t *testing.T, kind string) *bed {
	b := newBed(t, kind, 2)
	b.Netns.Run("ip", "link", "add", "ids", "type", "veth", "peer", "name", "ids0")
	b.Netns.Run("ip", "link", "set", "ids0", "up")
	b.Netns.Run("ip", "link", "set", "ids", "up")
	b.Netns.Run("tc", "qdisc", "add", "dev", "c1", "clsact")
	for _, dev := range []string{"br0", "up0"} {
		b.Netns.Run("tc", "qdisc", "add", "dev", dev, "ingress_block", "22", "clsact")
	}
	b.Netns.Run("tc", "qdisc", "add", "dev", "c2", "ingress")
	return b
}

// known returns those of the others that this kernel has the actions for.
func known(t *testing.T) (list []int) {
	t.Run("kernel", func(t *testing.T) {
		b := crowded(t, "tc")
		for i, o := range others {
			if o.tc != "" {
				come := o.comes()
				if out, err := exec.Command(come[0], come[1:]...).CombinedOutput(); err != nil {
					t.Logf("left out: %s: %s", o.name, bytes.TrimSpace(out))
					continue
				}
				b.Netns.Run(o.goes()...)
			}
			list = append(list, i)
		}
	})
	return list
}

func (s *story) live(at step, weir bool) {
	s.T.Helper()
	name := at.what
	switch {
	case at.what == "come":
		name += " " + others[at.which].name
		s.present[at.which] = s.place(others[at.which], at.head)
	case at.what == "go":
		name += " " + others[at.which].name
		s.present[at.which].takeAway(s.bed)
		delete(s.present, at.which)
	case weir:
		s.act(at.what)
	}
	for i, backend := range s.backends { // the agent's look, each second
		if missing, err := backend.Missing(); err != nil {
			s.T.Fatal(err)
		} else if len(missing) > 0 {
			s.T.Logf("after %q: %q", name, missing)
			s.Set(backend, s.wanted[i])
		}
	}
	before := s.counted()
	arrived := s.w.burst()
	s.divided(name, before)
	s.lines = append(s.lines, name+": arrived "+arrived+", copies "+s.copies())
	for i, o := range others {
		if p := s.present[i]; p != nil {
			s.lines = append(s.lines, name+": "+o.name+" has seen "+p.seen(s.bed))
		}
	}
}

// act does what an agent does.
func (s *story) act(what string) {
	s.T.Helper()
	switch what {
	case "begin", "adopt":
		egress, err := s.open("up0", s.Opts)
		if err != nil {
			s.T.Fatal(err)
		}
		s.backends = []dataplane.Backend{s.backend(false), egress}
		if s.zone {
			s.backends = slices.Insert(s.backends, 1, dataplane.Backend(s.behind(wan(hosttest.ServerAt+"/32"))))
		}
		for i, b := range s.backends {
			s.Set(b, s.wanted[i])
		}
	case "kill":
		s.backends[len(s.backends)-1].Close()
		s.backends = nil
	case "end":
		for _, b := range s.backends {
			if err := b.Cleanup(context.Background()); err != nil {
				s.T.Fatal(err)
			}
		}
		s.backends[len(s.backends)-1].Close()
		s.backends = nil
	}
}

// counted returns how many packets of class 1 were offered to each backend.
func (s *story) counted() (packets []uint64) {
	s.T.Helper()
	for _, b := range s.backends {
		packets = append(packets, s.Counters(b).Classes[1].EnqueuedPackets)
	}
	return packets
}

// divided fails the test if class 1 was not offered what came for, or from, its container.
func (s *story) divided(name string, before []uint64) {
	s.T.Helper()
	offered := slices.Clone(s.offered)
	for i := range s.present {
		if others[i].loses {
			return // the agent says class-lost
		}
		if others[i].takes {
			for out := 1; out < len(offered); out++ {
				offered[out] -= min(offered[out], perFlow)
			}
		}
	}
	for i, after := range s.counted() {
		if n := after - before[i]; n < offered[i] || n > s.offered[i]+5 { // ARP
			s.T.Errorf("after %q: backend %d: %d packets in class 1, want %d to %d", name, i, n, offered[i], s.offered[i]+5)
		}
	}
}

var counts = regexp.MustCompile(`RX:[^\n]*\n[^\n]*\n[^\n]*TX:[^\n]*\n\s*\d+\s+(\d+)`)

// copies returns how many packets came to the IDS.
func (s *story) copies() string {
	s.T.Helper()
	text := s.Netns.Run("ip", "-s", "link", "show", "ids")
	if found := counts.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return text
}

// fleeting is what two stories differ in: the kernel numbers programs and actions as they come.
// What stays in place over one story is compared with its numbers (TestOthersStayAsTheyAre).
var fleeting = regexp.MustCompile(`\bid \d+|\bid \[.*\]|tag \w+|jited|refcnt \d+|\bindex \d+ ref \d+ bind \d+`)

// hooks returns qdiscs, filters and programs of all devices, and the devices, as text.
func (s *story) hooks() (lines []string) {
	s.T.Helper()
	devices, err := net.Interfaces()
	if err != nil {
		s.T.Fatal(err)
	}
	slices.SortFunc(devices, func(a, b net.Interface) int { return strings.Compare(a.Name, b.Name) })
	for _, dev := range devices {
		text := s.Netns.Run("tc", "qdisc", "show", "dev", dev.Name)
		for _, parent := range []string{"ingress", "egress"} {
			text += s.Netns.Run("tc", "filter", "show", "dev", dev.Name, parent)
		}
		for _, hook := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			chain, err := link.QueryPrograms(link.QueryOptions{Target: dev.Index, Attach: hook})
			if err != nil {
				s.T.Fatal(err)
			}
			text += fmt.Sprintf("%v: %d programs, id %v\n", hook, len(chain.Programs), chain.Programs)
		}
		lines = append(lines, dev.Name+": "+text)
	}
	return lines
}

// Whatever others have at ports, bridge and link, in whatever order they and Weir come and go: each
// of theirs sees and does what it does without Weir, Weir's classes have the packets of their
// workloads, and in the end nothing but theirs is left.
func TestOthersWorkAsWithoutWeir(t *testing.T) {
	if !mark.HaveTCX() {
		t.Skip("skipped: this kernel has no tcx (Linux 6.6)")
	}
	here, from := known(t), cmp.Or(*seed, rand.Uint64())
	for i := range uint64(drawn) {
		steps := draw(rand.New(rand.NewPCG(from, i)), slices.Clone(here))
		t.Run(fmt.Sprintf("order %d", i), func(t *testing.T) {
			t.Logf("drawn with -seed %d: %+v", from, steps)
			kinds(t, func(t *testing.T, kind string) {
				need(t, kind)
				var without, with []string
				t.Run("without", func(t *testing.T) { without = tell(t, kind, steps, i%2 == 1, false) })
				t.Run("with", func(t *testing.T) { with = tell(t, kind, steps, i%2 == 1, true) })
				compare(t, steps, without, with)
			})
		})
	}
}

// What others have at all hooks is the same after Weir's cleanup as before it came, byte for byte,
// with the ids of programs and actions and their order: nothing of theirs was taken off and put
// back.
func TestOthersStayAsTheyAre(t *testing.T) {
	if !mark.HaveTCX() {
		t.Skip("skipped: this kernel has no tcx (Linux 6.6)")
	}
	here := known(t)
	for _, zone := range []bool{false, true} {
		t.Run(fmt.Sprintf("zone %v", zone), func(t *testing.T) {
			kinds(t, func(t *testing.T, kind string) {
				s := begin(t, kind, zone)
				for _, i := range here {
					s.present[i] = s.place(others[i], others[i].head)
				}
				before := s.hooks()
				for _, what := range []string{"begin", "kill", "adopt", "end"} {
					s.act(what)
					s.w.burst()
				}
				for i, now := range s.hooks() {
					if now != before[i] {
						t.Errorf("before Weir:\n%s\nafter it:\n%s", before[i], now)
					}
				}
			})
		})
	}
}

// compare fails the test at the first line of two stories that differs.
func compare(t *testing.T, steps []step, without, with []string) {
	t.Helper()
	for i := range max(len(with), len(without)) {
		if at(without, i) != at(with, i) {
			t.Fatalf("order %+v\nwithout Weir:\n%s\nwith it:\n%s", steps, at(without, i), at(with, i))
		}
	}
}

// drawn is how many orders are tried.
const drawn = 4

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
