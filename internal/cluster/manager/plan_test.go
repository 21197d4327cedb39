// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
	"weir/internal/cluster/manager/planning"
	"weir/internal/core/wire"
)

// large returns a manager that knows of so many nodes with ten containers each, and
// of their last minute. Odd nodes have more to do.
func large(t testing.TB, nodes int) *Manager {
	m := newManager(t)
	m.db.NoSync() // this does not test the kernel's disk
	keys := map[string]ed25519.PrivateKey{}
	r := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		keys[name] = keyOf(i)
		n := &planning.Node{Beat: wire.Heartbeat{CRIU: "4.2.1"}, Heard: now, Got: now}
		for age := planning.HistoryLen - 1; age >= 0; age-- {
			p := wire.Profile{Node: name, Time: now.Add(-time.Duration(age) * 5 * time.Second), IntervalSeconds: 5,
				Capacity: wire.Capacity{CPUCores: 8, MemoryBytes: 16e9, NetworkTransmitBps: 1e9, NetworkReceiveBps: 1e9, GuaranteedBps: 1e9}}
			for c := range 10 {
				busy := 0.1 + 0.3*float64(i%2)
				p.Containers = append(p.Containers, wire.ContainerProfile{ID: fmt.Sprintf("%056s%04d%04d", "", i, c), Name: fmt.Sprintf("%s-%d", name, c), Engine: "docker",
					Labels: map[string]string{"weir.weight": "3"}, Policy: wire.Policy{Weight: 3, MinBps: 1e6},
					Usage: wire.Usage{CPUCores: busy * (1 + r.Float64()/10), MemoryBytes: 400e6 + r.Uint64N(10e6), MemoryAnonymousBytes: r.Uint64N(1e9),
						BlockWriteBytesPerSec: r.Float64() * 1e6, NetworkTransmitBps: busy * 1e7, NetworkReceiveBps: r.Float64() * 1e6}})
			}
			n.History = planning.Remember(n.History, p)
		}
		m.nodes[name] = n
	}
	join(t, m, keys)
	return m
}

// BenchmarkPlan is a plan as the API makes it, of 10,000 containers on 1,000 nodes; 2 s
// on two CPUs is the bar.
func BenchmarkPlan(b *testing.B) {
	m := large(b, 1000)
	before := cpuTime(b)
	for b.Loop() {
		for _, n := range m.nodes {
			n.Heard, n.Got = time.Now(), time.Now()
		}
		plan, err := m.Plan(b.Context(), api.PlanRequest{})
		if err != nil || len(plan.Moves) == 0 || plan.After.S >= plan.Before.S {
			b.Fatalf("%d moves, %v", len(plan.Moves), err)
		}
	}
	b.ReportMetric((cpuTime(b)-before).Seconds()/float64(b.N), "CPU-s/op")
}

// cpuTime is what this process has used so far, whatever else the machine does.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Nodes that are short of nothing are left alone, by a plan and by the automatic mode, which say
// so; a request may ask for them all the same.
func TestCalmNodesAreLeftAlone(t *testing.T) {
	b := newBed(t, "a", "b")
	b.has["a"] = []string{"mail", "dns", "db"}
	b.pass(time.Second)
	plan, err := b.Plan(t.Context(), api.PlanRequest{})
	if err != nil || len(plan.Moves) > 0 || plan.Calm != 2 || plan.Above != 0.7 {
		t.Errorf("%+v, %v", plan, err)
	}
	b.look(b.now)
	if b.auto.result != "no node uses more than 70 % of its CPU, memory or network" || len(b.moves) > 0 {
		t.Errorf("%q, %d moves", b.auto.result, len(b.moves))
	}
	plan, err = b.Plan(t.Context(), api.PlanRequest{Above: new(0.0)})
	if err != nil || len(plan.Moves) == 0 || plan.Calm != 0 {
		t.Errorf("with a bound of 0: %+v, %v", plan, err)
	}
}
