// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/zone"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// wanAt is an address of the server in zone wan.
const wanAt = "203.0.113.1"

// zoneClass is the zone's class on the link.
const zoneClass plan.ClassID = 9

// wan is the area of zone wan, with more prefixes.
func wan(more ...string) *zone.Area {
	var p zone.Prefixes
	for _, text := range append([]string{"203.0.113.0/24"}, more...) {
		if err := p.Add(text); err != nil {
			panic(err)
		}
	}
	return &zone.Area{In: p}
}

// zoned makes a bed whose server is in zone wan, too, and the link's own backend.
func zoned(t *testing.T, kind string) (*bed, dataplane.Backend) {
	b := newBed(t, kind, 2)
	b.Server.Run("ip", "addr", "add", wanAt+"/24", "dev", "eth0")
	b.Netns.Run("ip", "route", "add", "203.0.113.0/24", "dev", "br0")
	for _, box := range b.Boxes {
		box.Run("ip", "route", "add", "203.0.113.0/24", "dev", "eth0")
	}
	root, err := b.open("up0", b.Opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	s := b.State(plan.Link{Capacity: 900 * mbit}, plan.Class{Weight: 1}, plan.Class{Weight: 1})
	s.Classes = append(s.Classes, plan.Class{ID: zoneClass, Name: "zone wan", Weight: 1, Min: 50 * mbit})
	for i := range s.Classes {
		s.Classes[i].Discipline = discipline.FIFO
	}
	b.Set(root, s)
	return b, root
}

// behind returns the backend of zone wan.
func (b *bed) behind(area *zone.Area) *Backend {
	b.T.Helper()
	backend, err := New(End{IFB: device.IFB{Link: "up0", Zone: "wan"}, Area: area}, b.Opts, b.open, b.Log())
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { backend.Close() })
	return backend
}

// inZone is the state of zone wan.
func (b *bed) inZone() plan.State {
	s := b.State(plan.Link{Zone: "wan", Class: zoneClass, Capacity: 50 * mbit}, plan.Class{Weight: 3, Min: 10 * mbit}, plan.Class{Weight: 1, Max: 5 * mbit})
	for i := range s.Classes {
		s.Classes[i].Discipline = discipline.FIFO
	}
	return s
}

// What leaves for the zone is counted there in the sender's class, and at the link in that of the
// zone; other packets are counted at the link alone. Every packet arrives.
func TestWhatLeavesForAZone(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b, root := zoned(t, kind)
		behind := b.behind(wan())
		b.Set(behind, b.inZone())
		ids := []plan.ClassID{0, 1, 2, zoneClass}
		for _, c := range []struct {
			what    string
			ping    func(args ...string) string
			address string
			atLink  [4]uint64 // by ids
			inZone  [4]uint64
		}{
			{"container 1 to the zone", b.Boxes[0].Run, wanAt, [4]uint64{0, 0, 0, 40}, [4]uint64{0, 40, 0, 0}},
			{"container 2 to the rest", b.Boxes[1].Run, "10.77.0.254", [4]uint64{0, 0, 40, 0}, [4]uint64{}},
			{"the host to the zone", b.Netns.Run, wanAt, [4]uint64{0, 0, 0, 40}, [4]uint64{40, 0, 0, 0}},
			{"the host to the rest", b.Netns.Run, "10.77.0.254", [4]uint64{40, 0, 0, 0}, [4]uint64{}},
		} {
			before := [2]dataplane.LinkCounters{b.Counters(root), b.Counters(behind)}
			c.ping("ping", "-q", "-c", "40", "-i", "0.01", c.address)
			after := [2]dataplane.LinkCounters{b.Counters(root), b.Counters(behind)}
			for i, want := range [2][4]uint64{c.atLink, c.inZone} {
				for k, id := range ids {
					got := after[i].Classes[id].SentPackets - before[i].Classes[id].SentPackets
					if got < want[k] || got > want[k]+10 { // ARP comes to it
						t.Errorf("%s: place %d, class %d: %d packets, want %d and a few", c.what, i, id, got, want[k])
					}
				}
			}
		}
	})
}

// Other prefixes come into force without a lost packet, and so does a zone that is not there any
// more.
func TestZonesChangeWithoutLoss(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b, _ := zoned(t, kind)
		behind, sets := b.behind(wan()), 0
		b.Set(behind, b.inZone())
		ping := b.Boxes[0].Command("ping", "-q", "-i", "0.002", "-c", "2000", wanAt)
		out, err := ping.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := ping.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan string, 1)
		go func() {
			var all strings.Builder
			for lines := bufio.NewScanner(out); lines.Scan(); {
				all.WriteString(lines.Text() + "\n")
			}
			ended <- all.String()
		}()
		for text := ""; text == ""; sets++ {
			area := wan(fmt.Sprintf("198.51.%d.0/24", sets%200))
			if sets%2 == 1 {
				area = &zone.Area{} // the address moves to the rest
			}
			behind.end.Area, behind.area = area, nil // as another backend has it, which takes a while to open
			b.Set(behind, b.inZone())
			select {
			case text = <-ended:
				if !strings.Contains(text, " 0% packet loss") {
					t.Errorf("packets are lost in %d changes: %s", sets, text)
				}
			case <-time.After(30 * time.Millisecond):
			}
		}
		if err := ping.Wait(); err != nil || sets < 5 {
			t.Errorf("%d changes, %v", sets, err)
		}
	})
}

// Another backend, such as that of a new agent, finds the state of the first and leaves the filter
// alone; and after Cleanup all is as before.
func TestZoneIsAdoptedAndCleanedUp(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b, root := zoned(t, kind)
		filters := func() string { return b.atEgress("up0") }
		// What splits packets is of all links, and goes with the last.
		list := func(args ...string) (kept string) {
			for line := range strings.Lines(b.Netns.Run(args...)) {
				if !strings.Contains(line, "weir-gso") {
					kept += line
				}
			}
			return kept
		}
		links, qdiscs := list("ip", "-o", "link"), list("tc", "qdisc", "show")
		before := filters()
		first := b.behind(wan())
		b.Set(first, b.inZone())
		first.Close()
		made := filters()
		second := b.behind(wan())
		have, err := second.State()
		if err != nil {
			t.Fatal(err)
		}
		have.Link.Class = zoneClass
		if kind == "tc" { // which remembers all
			if changes := plan.Diff(have, b.inZone()); len(changes) > 0 {
				t.Errorf("a new agent would change %v", changes)
			}
		}
		b.Set(second, b.inZone())
		if again := filters(); again != made {
			t.Errorf("filters were\n%sand are\n%s", made, again)
		}
		b.takeAway("up0")
		if missing, err := second.Missing(); err != nil || len(missing) != 1 {
			t.Errorf("the filter is taken away: %v, %v", missing, err)
		}
		b.Set(second, b.inZone())
		if missing, err := second.Missing(); err != nil || len(missing) != 0 {
			t.Errorf("the filter is there: %v, %v", missing, err)
		}
		if err := second.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		if now := filters(); now != before {
			t.Errorf("filters after cleanup: %s", now)
		}
		if now := list("ip", "-o", "link"); now != links {
			t.Errorf("devices after cleanup:\n%s\nbefore:\n%s", now, links)
		}
		if now := list("tc", "qdisc", "show"); now != qdiscs {
			t.Errorf("qdiscs after cleanup:\n%s\nbefore:\n%s", now, qdiscs)
		}
		if err := root.Cleanup(context.Background()); err != nil {
			t.Fatal(err)
		}
		if now := b.Netns.Run("ip", "-o", "link"); strings.Contains(now, "weir-") {
			t.Errorf("devices after cleanup of the link:\n%s", now)
		}
		if left, _ := os.ReadDir(b.Opts.StateDir); len(left) > 0 {
			t.Errorf("state left: %v", left)
		}
	})
}

// What is connected follows the addresses of the device.
func TestConnectedFollowsAddresses(t *testing.T) {
	b, _ := zoned(t, "tc")
	area := &zone.Area{In: zone.Prefixes{Connected: true}}
	behind := b.behind(area)
	b.Set(behind, b.inZone())
	if behind.Moved() {
		t.Error("nothing has changed")
	}
	b.Netns.Run("ip", "addr", "add", "198.51.100.1/24", "dev", "br0")
	if missing, err := behind.Missing(); err != nil || len(missing) > 0 || !behind.Moved() {
		t.Errorf("an address has come, and nobody has changed what was set: %v, %v", missing, err)
	}
	b.Set(behind, b.inZone())
	if behind.Moved() {
		t.Error("the zone has followed")
	}
	if !behind.area.Trie.Has(netip.MustParseAddr("198.51.100.9")) {
		t.Error("the new network is not in the zone")
	}
}
