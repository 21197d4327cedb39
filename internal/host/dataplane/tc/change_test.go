// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// A policy is changed 40 times under load that fits into every share: what
// iperf3 sends arrives, and nothing is dropped.
func TestChangeDropsNothing(t *testing.T) {
	b := newBed(t, 2)
	backend := b.backend()
	policies := []plan.State{
		b.state(plan.Class{Weight: 1}, plan.Class{Weight: 1, Min: 50 * mbit}),
		b.state(plan.Class{Weight: 100, Max: 20 * mbit}, plan.Class{Weight: 1}),
		b.state(plan.Class{Weight: 1, Min: 20 * mbit, Limit: plan.Limit{Packets: 500}}, plan.Class{Weight: 7}),
	}
	b.Set(backend, policies[0])
	b.run(backend)
	var clients []func() string
	for i := range 2 {
		clients = append(clients, b.traffic(i+1, "-u", "-b", "8M", "-l", "1200", "-t", "5"))
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for i := range 40 {
		<-ticker.C
		b.Set(backend, policies[i%len(policies)])
	}
	await(t, "both clients to send", func() bool {
		c := b.Counters(backend)
		return c.Classes[1].SentPackets > 3000 && c.Classes[2].SentPackets > 3000
	})
	for id, c := range b.Counters(backend).Classes {
		// CoDel may find that a machine without KVM sends in bursts; that is not
		// the change's doing.
		if codel := c.Drops[dropCodel]; codel > c.SentPackets/100 || len(c.Drops) > 1 ||
			c.Drops[dropLimit] > 0 || c.EnqueuedPackets != c.SentPackets+c.BacklogPackets+codel {
			t.Errorf("class %d: %+v, want no drops", id, c)
		}
		t.Logf("class %d: sent %d, drops %v", id, c.SentPackets, c.Drops)
	}
	for _, client := range clients {
		client()
	}
}

// A second agent finds everything, changes nothing and can go on.
func TestAdoption(t *testing.T) {
	b := newBed(t, 2)
	first := b.backend()
	s := b.state(plan.Class{Weight: 1, Min: 10 * mbit}, plan.Class{Weight: 4, Max: 55 * mbit})
	b.Set(first, s)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	show := func() string {
		return b.Netns.Run("tc", "class", "show", "dev", "up0") + b.Netns.Run("tc", "qdisc", "show")
	}
	before := show()

	second := b.backend()
	found, err := second.State()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(found, s) {
		t.Errorf("state found:\n%+v\nwant:\n%+v", found, s)
	}
	b.Set(second, s)
	if after := show(); after != before {
		t.Errorf("adopting changed the kernel:\n%s\nbefore:\n%s", after, before)
	}
	b.run(second)
	b.traffic(1)
	b.traffic(2)
	b.near("after adoption", second, 1500*time.Millisecond, 3*time.Second, ideal(s, 1, 2), 4)

	// Without its memory the agent still knows what HTB knows.
	entries, _ := os.ReadDir(b.Opts.StateDir)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "tc-") {
			if err := os.Remove(b.Opts.StateDir + "/" + entry.Name()); err != nil {
				t.Fatal(err)
			}
		}
	}
	found, err = b.backend().State()
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Classes) != 3 || found.Link.Capacity != 100*mbit {
		t.Errorf("state without memory: %+v, want three classes on 100 Mbit/s", found)
	}
}

// The queue of a workload that is gone is sent, not dropped, and its class goes
// when it is empty.
func TestRemovedClassDrains(t *testing.T) {
	b := newBed(t, 2)
	backend := b.backend()
	s := b.state(plan.Class{Weight: 1}, plan.Class{Weight: 1, Limit: plan.Limit{Packets: 400}})
	s.Link.Capacity = 1 * mbit // a machine without KVM floods no more than a few
	b.Set(backend, s)
	b.traffic(2, "-u", "-b", "30M", "-l", "1200") // goes on as the host's, unmarked
	await(t, "packets to wait", func() bool { return b.Counters(backend).Classes[2].BacklogPackets > 50 })
	without := b.state(plan.Class{Weight: 1})
	without.Link.Capacity = s.Link.Capacity
	b.Set(backend, without)
	if now, err := backend.State(); err != nil || !reflect.DeepEqual(now, without) {
		t.Errorf("state %+v (%v), want %+v", now, err, without)
	}
	if !strings.Contains(b.Netns.Run("tc", "class", "show", "dev", "up0"), "77e1:2 ") {
		t.Error("the class went with packets in it")
	}
	b.run(backend)
	await(t, "the class to go", func() bool {
		return !strings.Contains(b.Netns.Run("tc", "class", "show", "dev", "up0"), "77e1:2 ")
	})
}

// 200 workloads come and go, in groups of 20; no class, leaf or mark stays, and
// the one that was there all the time keeps its class.
func TestChurn(t *testing.T) {
	b := newBed(t, 1)
	backend := b.backend()
	base := b.state(plan.Class{Weight: 5, Min: 10 * mbit})
	b.Set(backend, base)
	b.run(backend)
	files := countFiles(t)
	show := func() string { return b.Netns.Run("tc", "qdisc", "show", "dev", "up0") }
	before := show()
	for round := range 10 {
		s := base
		for i := range 20 {
			name := fmt.Sprintf("p%d", i)
			b.Netns.Run("ip", "link", "add", name, "type", "veth", "peer", "name", name+"p")
			b.Netns.Run("ip", "link", "set", name, "group", "7")
			dev, err := backend.conn.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			id := plan.ClassID(2 + round*20 + i)
			s.Classes = append(s.Classes, plan.Class{ID: id, Name: name, Weight: uint32(i + 1)})
			s.Ports = append(s.Ports, plan.Port{Device: name, Ifindex: dev.Index, Class: id})
		}
		b.Set(backend, s)
		if now, err := backend.State(); err != nil || !reflect.DeepEqual(now, s) {
			t.Fatalf("round %d: state %+v (%v), want %+v", round, now, err, s)
		}
		b.Netns.Run("ip", "link", "del", "group", "7")
		b.Set(backend, base)
	}
	await(t, "the queues to go", func() bool { return show() == before })
	if now, err := backend.State(); err != nil || !reflect.DeepEqual(now, base) {
		t.Errorf("state %+v (%v), want %+v", now, err, base)
	}
	if now := countFiles(t); now != files {
		t.Errorf("%d open files, %d before", now, files)
	}
}

func TestErrors(t *testing.T) {
	b := newBed(t, 0)
	_, err := New("up1", b.Opts, b.backend().log)
	if !errors.Is(err, dataplane.ErrNoDevice) || !strings.Contains(err.Error(), "did you mean up0?") {
		t.Errorf("New on a missing device: %v", err)
	}
	backend := b.backend()
	b.Netns.Run("ip", "link", "del", "up0")
	err = backend.Set(context.Background(), b.state())
	if !errors.Is(err, dataplane.ErrNoDevice) {
		t.Errorf("Set on a device that went away: %v", err)
	}
	if err := backend.Cleanup(context.Background()); err != nil {
		t.Errorf("Cleanup of a device that went away: %v", err)
	}
}

// await waits until a condition holds, at most ten seconds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited ten seconds for %s", what)
		}
	}
}

func countFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
