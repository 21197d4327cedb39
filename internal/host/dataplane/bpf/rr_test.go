// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
)

// The example of docs/write-a-scheduler.md, rr, is compiled with the rest of the kernel
// side, as the page says, and does what the page says.

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -mcpu=v4 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types rr ../../../../bpf/qdisc.bpf.c -- -I ../../../../bpf -I ../../../../docs/examples/scheduler -DWEIR_EXTRA_SCHEDULER_HEADER=<rr.h> "-DWEIR_EXTRA_SCHEDULER(ROW,...)=ROW(WEIR_SCHED_RR,rr,##__VA_ARGS__)"

var rrSimulator = sync.OnceValues(func() (string, error) {
	return compileSimulator("weir-sim-rr", "-I", "../../../../bpf", "-I", "../../../../docs/examples/scheduler",
		"-DWEIR_EXTRA_SCHEDULER_HEADER=<rr.h>", "-DWEIR_EXTRA_SCHEDULER(ROW,...)=ROW(WEIR_SCHED_RR,rr,##__VA_ARGS__)")
})

// TestPageShowsTheScheduler: the page has the header in full, which is short.
func TestPageShowsTheScheduler(t *testing.T) {
	header, err := os.ReadFile("../../../../docs/examples/scheduler/rr.h")
	must(t, err)
	page, err := os.ReadFile("../../../../docs/write-a-scheduler.md")
	must(t, err)
	if !bytes.Contains(page, header) {
		t.Error("docs/write-a-scheduler.md shows another rr.h than docs/examples/scheduler has; copy it there")
	}
	if lines := bytes.Count(header, []byte("\n")); lines > 60 {
		t.Errorf("the example has %d lines; it is to have 60 at most", lines)
	}
}

// TestRR: classes of different weights and lengths send as many packets each, the link is
// full, and a class that sends little gets all it wants.
func TestRR(t *testing.T) {
	link := fairLink(8e6)
	link.Scheduler = "rr"
	var classes []plan.Class
	for id, weight := range map[plan.ClassID]uint32{1: 1, 2: 100, 3: 10000, 4: 1} {
		classes = append(classes, plan.Class{ID: id, Weight: weight, Discipline: "fifo"})
	}
	s := simulate(link, classes...)
	s.program = rrSimulator
	s.send(traffic{id: 1, length: 1000, window: 20, delay: 50 * time.Microsecond})
	s.send(traffic{id: 2, length: 200, window: 20, delay: 50 * time.Microsecond})
	s.send(traffic{id: 3, length: 1000, window: 20, delay: 50 * time.Microsecond})
	s.send(traffic{id: 4, length: 100, interval: 100 * time.Millisecond})
	s.settle()
	s.run(10 * time.Second)
	p := s.result(t)[1]
	// 2,200 bytes a round: 1,000, 200 and 1,000, of what the fourth leaves.
	left := 8e6 - 8e3
	for id, want := range map[plan.ClassID]float64{1: left * 1000 / 2200, 2: left * 200 / 2200, 3: left * 1000 / 2200, 4: 8e3} {
		got := p.flow(id, 0).sent * 8 / 10
		t.Logf("class %d: %.0f bit/s, %.0f wanted", id, got, want)
		if off := got/want - 1; off < -0.001 || off > 0.001 {
			t.Errorf("class %d got %.0f bit/s, not %.0f", id, got, want)
		}
	}
	if most := time.Duration(p.flow(4, 0).longest); most > 10*time.Millisecond {
		t.Errorf("a packet of the class that sends little waited %v, more than a round", most)
	}
}

// TestPacketsInTurn sends packets through the example in the kernel.
func TestPacketsInTurn(t *testing.T) {
	onLink(t)
	spec, err := loadRr()
	must(t, err)
	must(t, spec.Variables[rrVarScheduler].Set(uint32(schedulersOf(spec.Types)["rr"])))
	must(t, spec.Variables[rrVarCarrier].Set(where(plan.Carrier{Mask: plan.UsualMask}))) // sendTo says the class by the mark
	o, err := loadAs(spec, "weirrr", nil)
	must(t, err)
	defer o.close()
	link := fairLink(100e3) // a packet takes 0.08 s
	must(t, o.link.Put(uint32(0), linkConfig(link, 1)))
	ids := []uint32{0, 1, 2, 3}
	for _, id := range ids {
		must(t, o.classes.Put(id, classConfig(plan.Class{ID: plan.ClassID(id), Weight: 1, Discipline: "fifo"}, link)))
	}
	must(t, o.announce(append([]uint32{ringLink}, ids...)))
	conn, err := device.Open()
	must(t, err)
	defer conn.Close()
	dev, err := conn.Lookup("up0")
	must(t, err)
	must(t, conn.SetRoot(dev, device.Qdisc{Kind: o.kind}))

	arrived := arrivals(t)
	sendTo(t, 3, 0, 8)
	sendTo(t, 1, 0, 3)
	sendTo(t, 2, 0, 3)
	got := arrived(14)
	// Some of class 3 have left before the others come.
	first := slices.Index(got, 1)
	if first < 1 || first > 4 || !slices.Equal(got[first:first+8], []byte{1, 2, 3, 1, 2, 3, 1, 2}) {
		t.Errorf("classes in the order %v", got)
	}
	must(t, conn.DeleteRoot(dev))
}
