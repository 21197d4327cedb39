// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/policy"
)

// linkError waits until the agent says something is wrong with its link, or that
// nothing is.
func (b *bed) linkError(a *agent, wrong bool) string {
	b.t.Helper()
	var text string
	took := await(b.t, 20*time.Second, fmt.Sprintf("link wrong: %v", wrong), func() error {
		status, err := a.Status(context.Background())
		if err != nil {
			return err
		}
		if text = status.Links[0].Error; (text != "") != wrong {
			return fmt.Errorf("status says %q", text)
		}
		return nil
	})
	b.t.Logf("the agent says %q after %.1f s", text, took.Seconds())
	return text
}

// The uplink vanishes and another one takes its name: a modem that is plugged in
// again.
func TestUplinkComesBack(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("workloads:\n  w2: {weight: 4}\n")
	before := b.traces()
	a := b.start()
	b.steered(a)
	was := inventory(t, a)
	class1 := a.workload("w1").Class

	b.host.delete("up0")
	b.linkError(a, true)
	b.weir("set", "w2", "--weight", "3") // taken, and put into force later
	b.plugServer(0)
	for i := range b.boxes {
		b.srv.knows("eth0", workloadAt(0, i+1))
	}
	b.watch(0)
	b.linkError(a, false)
	b.steered(a)
	b.flood(0, 1, 0.4)
	b.flood(0, 2, 0.9)
	b.warmUp()
	b.same("on the new uplink", b.full(0, 2*time.Second), b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3}), unchanged)
	if got := a.workload("w1").Class; got != class1 {
		t.Errorf("w1 was class %d, is class %d", class1, got)
	}
	await(t, 10*time.Second, "nothing left of the old uplink", func() error {
		now := inventory(t, a)
		if len(now.Pins) > len(was.Pins) {
			return fmt.Errorf("pins were %v, are %v", was.Pins, now.Pins)
		}
		now.Pins, now.Links = was.Pins, was.Links // other names; and the meter has two links now
		return now.more(was)
	})
	a.stop()
	b.weir("cleanup", "--config", b.configFile())
	b.asBefore("cleanup", before)
}

// A workload's device is made anew, with another index: a container that is
// connected to its network again.
func TestPortComesBack(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	a := b.start()
	b.steered(a)
	number, pins := a.workload("w1").Class, len(inventory(t, a).Pins)
	for range 3 {
		before := b.host.device("w1").Attrs().Index
		b.host.delete("w1")
		await(t, 5*time.Second, "w1 waits", func() error {
			if w := a.workload("w1"); w.State != "waiting" {
				return fmt.Errorf("%s, devices %v", w.State, w.Devices)
			}
			return nil
		})
		b.plugBox(b.boxes[0], 0, 1)
		b.steered(a)
		if now := b.host.device("w1").Attrs().Index; now == before {
			t.Fatalf("w1 has index %d again", now)
		}
		counted := class(b.counters(0), number).EnqueuedPackets
		sent, lost := b.settle(b.udp(0, 1, 0.05))
		if got := class(b.counters(0), number).EnqueuedPackets - counted; got != sent[0] || lost[0] != 0 {
			t.Errorf("of %d packets, %d were counted in class %d and %d lost", sent[0], got, number, lost[0])
		}
	}
	if got := len(inventory(t, a).Pins); got > pins {
		t.Errorf("%d pins instead of %d: %v", got, pins, inventory(t, a).Pins)
	}
}

// The uplink goes down and up under load. What waits is dropped by the kernel,
// counted as such, and afterwards all is as it was.
func TestUplinkDownAndUp(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("workloads:\n  w2: {weight: 3}\n")
	a := b.start()
	b.steered(a)
	streams := []flow{b.flood(0, 1, 0.4), b.flood(0, 2, 0.9)}
	ideal := b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3})
	b.warmUp()
	b.same("before", b.full(0, time.Second), ideal, unchanged)
	qdisc := b.rootQdisc(0)
	for _, down := range []time.Duration{0, 2500 * time.Millisecond} { // the agent looks every second
		b.host.down("up0")
		b.addUp(b.counters(0))
		<-time.After(down)
		b.host.up("up0")
		await(t, 5*time.Second, "packets pass again", func() error {
			if rates := b.rates(0, 100*time.Millisecond); rates[0] == 0 || rates[1] == 0 {
				return fmt.Errorf("rates %v", rates)
			}
			return nil
		})
	}
	b.warmUp()
	b.same("after", b.full(0, time.Second), ideal, unchanged)
	if got := b.rootQdisc(0); got != qdisc {
		t.Errorf("qdisc was %q, is %q", qdisc, got)
	}
	sent, lost := b.settle(streams...)
	end := b.counters(0)
	b.addUp(end)
	for i, number := range []uint16{a.workload("w1").Class, a.workload("w2").Class} {
		c := class(end, number)
		t.Logf("w%d: %d packets offered, %d arrived, counted %+v", i+1, sent[i], sent[i]-lost[i], c)
		if c.SentPackets < sent[i]-lost[i] {
			t.Errorf("w%d: %d packets arrived, %d were counted as sent", i+1, sent[i]-lost[i], c.SentPackets)
		}
	}
	if onBPF() && drops(end, "reset") == 0 {
		t.Error("nothing was counted as dropped by the reset")
	}
}

// Another program deletes Weir's qdisc, or puts its own in the place: the agent puts Weir's back
// within seconds, and cleanup that of the other program. What is there when the agent starts is a
// user's decision, and Weir says so.
func TestQdiscTakenAway(t *testing.T) {
	b := newBed(t, 2, 1)
	b.configure("workloads:\n  w2: {weight: 3}\n")
	a := b.start()
	b.steered(a)
	b.flood(0, 1, 0.4)
	b.flood(0, 2, 0.9)
	ideal := b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3})
	b.host.run("tc qdisc del dev up0 root")
	// In virtual time the kernel's verifier takes some 2 s for the qdisc, and more beside a
	// flood.
	took := await(t, 10*time.Second, "the qdisc is back", func() error {
		if q := b.rootQdisc(0); !strings.Contains(q, "weir") && !strings.Contains(q, "77e1:") {
			return errors.New(q)
		}
		return nil
	})
	t.Logf("the qdisc is back after %.1f s", took.Seconds())
	b.warmUp()
	b.same("after it was deleted", b.full(0, time.Second), ideal, unchanged)

	// Another program's own takes its place, as managers of networks have it.
	b.host.run("tc qdisc replace dev up0 root handle 5: pfifo limit 77")
	await(t, 10*time.Second, "the qdisc is back", func() error {
		if q := b.rootQdisc(0); !strings.Contains(q, "weir") && !strings.Contains(q, "77e1:") {
			return errors.New(q)
		}
		return nil
	})
	b.warmUp()
	b.same("after it was replaced", b.full(0, time.Second), ideal, unchanged)
	a.kill()
	b.weir("cleanup", "--config", b.configFile())
	if q := b.rootQdisc(0); !strings.Contains(q, "pfifo 5:") || !strings.Contains(q, "limit 77p") {
		t.Errorf("after cleanup the root qdisc is %q", q)
	}
	b.host.run("tc qdisc del dev up0 root")
	a = b.start()
	b.steered(a)
	a.kill()
	// While no agent runs: what the one before pinned is of no use.
	b.host.run("tc qdisc replace dev up0 root handle 5: pfifo limit 77")
	a = b.launchAgent()
	<-a.done
	if q := b.rootQdisc(0); !strings.Contains(q, "pfifo 5:") {
		t.Errorf("root qdisc is %q", q)
	}
	b.host.run("tc qdisc del dev up0 root")
	a = b.start()
	b.steered(a)
	b.warmUp()
	b.same("started without a qdisc", b.full(0, time.Second), ideal, unchanged)
}

// foreignChanges has devices that are no concern of Weir's made, changed and deleted beside it,
// each a given number of changes a second, until the test ends.
func (s *space) foreignChanges(each int) {
	s.t.Helper()
	changes := exec.Command("ip", "-batch", "-")
	lines, err := changes.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.start(changes)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second / time.Duration(each))
		defer ticker.Stop()
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			case <-ticker.C:
			}
			name := fmt.Sprint("foreign", i/4)
			_, err := fmt.Fprintln(lines, [...]string{"link add " + name + " type bridge", "link set " + name + " up",
				"link set " + name + " mtu 1400", "link delete " + name}[i%4])
			if err != nil {
				s.t.Errorf("foreign changes: %v", err)
				return
			}
		}
	}()
	s.t.Cleanup(func() {
		close(over)
		<-done
		_ = lines.Close()
		if err := changes.Wait(); err != nil {
			s.t.Errorf("foreign changes: %v", err)
		}
	})
}

// Two hundred new workloads, one after the other, among 100 foreign changes of devices a second on
// the host and 100 in another workload's namespace: 198 are steered within half a second. Natively
// fifty suffice without -long.
func TestNewWorkloadsAmongForeignChanges(t *testing.T) {
	const within = 500 * time.Millisecond
	many := 200
	if *backend != "bpf" && !*long {
		many = 50
	}
	late := many / 100
	b := newBed(t, 2, 1)
	b.configure("")
	a := b.start()
	b.steered(a)
	b.host.foreignChanges(100)
	b.boxes[1].foreignChanges(100)
	var took []time.Duration
	for range many {
		b.host.delete("w1")
		await(t, 10*time.Second, "w1 waits", func() error {
			if w := a.workload("w1"); w.State != "waiting" {
				return fmt.Errorf("%s, devices %v", w.State, w.Devices)
			}
			return nil
		})
		begin := time.Now()
		b.plugBox(b.boxes[0], 0, 1)
		await(t, 10*time.Second, "w1 is steered", func() error {
			if w := a.workload("w1"); w.State != "active" {
				return fmt.Errorf("%s, devices %v", w.State, w.Devices)
			}
			if b.tcxPrograms(b.host.device("w1").Attrs().Index, ebpf.AttachTCXIngress) == 0 {
				return errors.New("what w1 sends is not marked")
			}
			return nil
		})
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Logf("steered after %v in the middle, %v at the 99th of a hundred, %v at most", took[many/2], took[many-late-1], took[many-1])
	if took[many-late-1] > within {
		t.Errorf("of %d workloads %d may be steered later than %v: %v", many, late, within, took[many-late-1:])
	}
}

// An IFB is no workload's device: weir attach refuses it, and one in weir.yaml is not steered,
// which is said, also of one that comes later.
func TestIFBAsWorkload(t *testing.T) {
	b := newBed(t, 1, 1)
	b.host.run("ip link add ifb7 type ifb")
	b.configure("  - {name: by-ifb, device: ifb7}\n  - {name: later, device: ifb8}\n")
	a := b.start()
	b.steered(a)
	const seen = "is an IFB, to which filters redirect packets of another device: name that device, by which they come into the host"
	for name, device := range map[string]string{"by-ifb": "ifb7", "later": "ifb8"} {
		if name == "later" {
			b.host.run("ip link add ifb8 type ifb")
		}
		await(t, 5*time.Second, name+" not steered", func() error {
			if w := a.workload(name); w.State != "unsteered" || !strings.Contains(w.Note, "its device "+device+" "+seen) {
				return fmt.Errorf("it is %s: %q", w.State, w.Note)
			}
			return nil
		})
	}
	b.host.run("ip link add ifb9 type ifb")
	await(t, 5*time.Second, "weir attach knows the device", func() error {
		if got := b.cli("attach", "more", "--device", "ifb9"); strings.Contains(got.stderr, "does not exist") {
			return errors.New(got.stderr)
		}
		return nil
	})
	b.oneLine("weir attach", b.cli("attach", "more", "--device", "ifb9"), 2, `device "ifb9" `+seen)
}
