// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// qdiscs are the root qdiscs of all uplinks.
func (b *bed) qdiscs() (list []string) {
	for n := range b.nets {
		list = append(list, b.rootQdisc(n))
	}
	return list
}

// isOurs says whether a line of tc names a qdisc of Weir's.
func isOurs(qdisc string) bool {
	return strings.HasPrefix(qdisc, "qdisc weir") || strings.HasPrefix(qdisc, "qdisc htb 77e1:")
}

// started starts the agent and waits until the first uplink is steered.
func (b *bed) started() *agent {
	b.t.Helper()
	a := b.startWithin(time.Minute)
	b.firstSteered()
	return a
}

// firstSteered waits until the first uplink has a qdisc of Weir's.
func (b *bed) firstSteered() time.Duration {
	b.t.Helper()
	return await(b.t, time.Minute, "the first uplink is steered", func() error {
		if q := b.rootQdisc(0); !isOurs(q) {
			return fmt.Errorf("it has %q", q)
		}
		return nil
	})
}

// soon fails if an uplink was steered later than a second after it was there, in virtual time: with
// the fallback the machine may do other things meanwhile.
func (b *bed) soon(took time.Duration) {
	b.t.Helper()
	b.t.Logf("steered after %v", took)
	most := time.Second
	if *backend != plan.BackendBPF {
		most = 5 * time.Second
	}
	if took > most {
		b.t.Errorf("the uplink was steered %v after it came, want %v", took, most)
	}
}

// onlyFirst waits until the first uplink alone has a qdisc of Weir's, and the second its own.
func (b *bed) onlyFirst(what, own string) {
	b.t.Helper()
	await(b.t, 30*time.Second, what, func() error {
		if q := b.qdiscs(); !isOurs(q[0]) || q[1] != own {
			return fmt.Errorf("%s have %q, the second without Weir %q", what, q, own)
		}
		return nil
	})
}

// The administrator takes a link out of the file while no agent runs: the next one gives the device
// back, with the IFB of what it received.
func TestLinkTakenOutWhileStopped(t *testing.T) {
	for how, end := range map[string]func(*agent){"stopped": (*agent).stop, "killed": (*agent).kill} {
		t.Run(how, func(t *testing.T) {
			b := newBed(t, 1, 2)
			own := b.rootQdisc(1)
			nothing := b.traces()
			b.configureLinks(", ingress: 10mbit", "")
			a := b.started()
			b.steered(a)
			if q := b.qdiscs(); !isOurs(q[0]) || !isOurs(q[1]) {
				t.Fatalf("uplinks have %q", q)
			}
			end(a)
			all := b.nets
			b.nets = all[:1]
			b.configure("")
			b.nets = all
			a = b.started()
			b.onlyFirst("uplinks", own)
			if left := b.host.run("ip -o link show type ifb"); left != "" {
				t.Errorf("IFB devices are left: %s", left)
			}
			a.stop()
			b.weir("cleanup", "--config", b.configFile())
			b.asBefore("cleanup", nothing)
		})
	}
}

// Two network cards swap their names: Weir steers the one that has the link's name, and gives the
// other back.
func TestUplinksSwapNames(t *testing.T) {
	b := newBed(t, 1, 2)
	own, all := b.rootQdisc(1), b.nets
	b.nets = all[:1]
	b.configure("")
	b.nets = all
	a := b.started()
	b.onlyFirst("uplinks", own)
	for range 2 { // there and back
		b.host.rename("up0", "spare")
		b.host.rename("up1", "up0")
		b.host.rename("spare", "up1")
		b.soon(b.firstSteered())
		b.onlyFirst("uplinks with each other's names", own)
		if text := b.linkError(a, false); text != "" {
			t.Error(text)
		}
	}
	if *backend == plan.BackendBPF {
		if pins, _ := filepath.Glob("/sys/fs/bpf/weir/netns-*/links/*"); len(pins) != 1 {
			t.Errorf("pins are left of a device that was given back: %v", pins)
		}
	}
}

// Two links swap their names: each is what its name says again within a second.
func TestLinksSwapNames(t *testing.T) {
	b := newBed(t, 1, 2)
	nothing := b.traces()
	b.configure("")
	a := b.started()
	b.steered(a)
	indices := func() (list [2]int) {
		for i, n := range b.nets {
			list[i] = b.host.device(n.uplink).Attrs().Index
		}
		return list
	}
	before := indices()
	for range 2 { // there and back
		b.host.rename("up0", "spare")
		b.host.rename("up1", "up0")
		b.host.rename("spare", "up1")
		took := await(t, time.Minute, "both are steered", func() error {
			if q := b.qdiscs(); !isOurs(q[0]) || !isOurs(q[1]) {
				return fmt.Errorf("they have %q", q)
			}
			status, err := a.Status(context.Background())
			for _, l := range status.Links {
				if err == nil && l.Error != "" {
					err = errors.New(l.Error)
				}
			}
			return err
		})
		b.soon(took)
		b.steered(a)
	}
	if now := indices(); now != before {
		t.Errorf("the devices are %v, were %v", now, before)
	}
	a.stop()
	b.weir("cleanup", "--config", b.configFile())
	b.asBefore("cleanup", nothing)
}

func (s *space) rename(from, to string) {
	s.t.Helper()
	s.run("ip link set " + from + " down")
	s.run("ip link set " + from + " name " + to)
	s.run("ip link set " + to + " up")
}

// An uplink that was away for longer than the agent's attempts wait for is steered at once.
func TestUplinkReturnsLate(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("")
	a := b.started()
	b.steered(a)
	for _, away := range []time.Duration{0, 6 * time.Second} {
		b.host.delete("up0")
		time.Sleep(away)
		b.plugServer(0)
		b.soon(b.firstSteered())
	}
}

// Links have the names that people and distributions give to devices.
func TestNamesOfLinks(t *testing.T) {
	for _, name := range []string{"up0.832", "a.b.c", "wan+0@x_y", "réseau", "fifteen-letters"} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, 2, 1)
			b.host.rename("up0", name)
			b.nets[0].uplink = name
			before := b.traces()
			b.configureLinks(", ingress: 10mbit", "workloads:\n  w2: {weight: 3}\n")
			a := b.started()
			b.steered(a)
			b.flood(0, 1, 0.6)
			b.flood(0, 2, 0.9)
			b.warmUp()
			ideal := b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 3})
			b.same("weights 1 and 3", b.full(0, time.Second), ideal, unchanged)
			a.kill()
			a = b.started() // it adopts what it finds
			b.steered(a)
			b.same("of the next agent", b.full(0, time.Second), ideal, unchanged)
			a.stop()
			b.weir("cleanup", "--config", b.configFile())
			b.asBefore("cleanup", before)
		})
	}
}

// A device is one link, by whichever of its names: of two links the second is refused, by name.
func TestOneDeviceByTwoNames(t *testing.T) {
	b := newBed(t, 1, 1)
	b.host.run("ip link property add dev up0 altname enp9s0")
	b.nets = append(b.nets, network{bridge: b.nets[0].bridge, uplink: "enp9s0"})
	b.configure("")
	a := b.start()
	await(t, 5*time.Second, "the second link is refused", func() error {
		text := b.cli("status").stdout
		if want := "enp9s0 is another name of the device of link up0; remove one of the two from links"; !strings.Contains(text, want) {
			return fmt.Errorf("%q is not in\n%s", want, text)
		}
		return nil
	})
	if q := b.rootQdisc(0); !isOurs(q) {
		t.Errorf("the first link has %q", q)
	}
	a.stop()

	// By its alternative name alone it is a link like any other.
	b.nets = b.nets[1:]
	b.configure("")
	a = b.start()
	if text := b.linkError(a, false); text != "" {
		t.Error(text)
	}
	b.weir("set", "w1", "--max", "5mbit")
	b.steered(a)
}
