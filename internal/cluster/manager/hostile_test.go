// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/core/wire"
)

var long = flag.Bool("long", false, "10,000 hostile messages instead of 2,000")

// The bounds of what one member may fill, as docs/cluster.md states them.
const (
	mostMemory   = 10 << 20
	mostDatabase = 10 << 20
)

// hostile draws messages of a member that wants to fill the manager: each as large as
// the bus takes, or as long as Check lets it be, in turn.
type hostile struct {
	*rand.Rand
	n      int
	move   string
	places []string // the last requests for one
}

func (h *hostile) text(most int) string {
	h.n++
	return fmt.Sprintf("%08d", h.n) + strings.Repeat(string(rune('a'+h.IntN(26))), max(0, (h.IntN(8)/7)*most+(h.IntN(3)-1)*8-8))
}

func (h *hostile) object(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}

// next returns a message and the topic on which it goes.
func (h *hostile) next() (wire.Topic, raw) {
	switch h.IntN(7) {
	case 0:
		var list []map[string]any
		for i := range 100 + (h.IntN(8)/7)*(wire.MaxContainers-99+h.IntN(2)) {
			list = append(list, map[string]any{"id": fmt.Sprint(h.n, "-", i), "name": fmt.Sprint("c", i), "engine": "docker", "labels": map[string]string{h.text(0): h.text(100)}, "usage": map[string]any{}})
		}
		return wire.Profiles, raw{"profile", profile("x", map[string]any{"containers": list, "missing": []string{h.text(wire.MaxText), h.text(wire.MaxText)}})}
	case 1:
		engines := make([]wire.Engine, h.IntN(2)*wire.MaxEngines+h.IntN(2))
		for i := range engines {
			engines[i] = wire.Engine{Name: wire.EngineName(h.text(wire.MaxName)), Version: h.text(wire.MaxName)}
		}
		return wire.Heartbeats, raw{"heartbeat", h.object(wire.Heartbeat{Node: "x", Seq: uint64(h.n), CRIU: "4", Address: h.text(wire.MaxName), Engines: engines, Kernel: h.text(900000)})}
	case 2, 3:
		return wire.Reports, raw{"move-report", h.object(wire.MoveReport{ID: h.move, Node: "x", Seq: uint64(time.Now().UnixNano()), Step: h.text(wire.MaxName),
			State: wire.MoveRunning, Error: h.text(wire.MaxText), Bytes: h.Uint64()})}
	case 4:
		return wire.Reports, raw{"apply-report", h.object(wire.ApplyReport{ID: h.places[h.IntN(len(h.places))] + "-apply", Node: "x", Error: h.text(wire.MaxText)})}
	case 5:
		return wire.Topics[h.IntN(3)], raw{h.text(wire.MaxName), h.object(h.text(900000))}
	}
	id := h.text(wire.MaxName - 100)
	h.places = append(h.places[max(0, len(h.places)-20):], id)
	return wire.Reports, raw{"place-request", h.object(wire.PlaceRequest{ID: id, Node: "x", Container: fmt.Sprint("c", h.IntN(100)),
		MinBps: uint64(h.IntN(2)), Change: h.object(map[string]string{"max": h.text(wire.MaxChange - 100)}), Refusal: h.text(wire.MaxText)})}
}

// TestHostileMember: 10,000 messages of one member (-long; 2,000 without), as large as
// they can be, leave memory and database below a bound, and the others are planned as
// before. The rates that hold in time are given anew all the while, as over hours.
func TestHostileMember(t *testing.T) {
	count := 2000
	if *long {
		count = 10_000
	}
	b := newBed(t, "a", "b", "x")
	b.db.NoSync() // this does not test the kernel's disk
	b.has["a"] = []string{"web", "db", "mail", "dns"}
	for i := range 100 {
		b.has["x"] = append(b.has["x"], fmt.Sprint("c", i))
	}
	b.pass(0)
	mv := b.order("c0", "x", "b")
	b.report(mv, "pre-flight", wire.MoveRunning)
	b.dead["x"] = true
	h := &hostile{Rand: rand.New(rand.NewPCG(1, 2)), move: mv.ID, places: []string{"p"}}
	before, size := heap(), b.size()
	for i := range count {
		if i%20 == 0 {
			b.mu.Lock()
			b.flows, b.orders = nil, nil // as after a while, on a bus that takes everything
			b.now = moves.Later(b.now, time.Now())
			b.mu.Unlock()
		}
		topic, m := h.next()
		b.says("x", topic, m)
		if i%500 == 0 {
			b.pass(time.Second)
		}
	}
	grown, filled := heap()-before, b.size()-size
	t.Logf("%d messages: memory grew by %.1f MB, the database by %.1f MB; %d were refused, %d moves, %d places, %d policies",
		count, float64(grown)/1e6, float64(filled)/1e6, b.refused.Load(), len(b.moves), len(b.places), len(b.applies))
	if grown > mostMemory {
		t.Errorf("memory grew by %d bytes, %d is the bound", grown, mostMemory)
	}
	if filled > mostDatabase {
		t.Errorf("the database grew by %d bytes, %d is the bound", filled, mostDatabase)
	}
	if len(mv.Steps) > moves.MaxSteps || mv.State != wire.MoveRunning {
		t.Errorf("%d steps, state %s", len(mv.Steps), mv.State)
	}
	b.now = moves.Later(b.now, time.Now())
	b.dead["x"] = false
	b.pass(time.Second)
	if plan, err := b.Plan(t.Context(), api.PlanRequest{}); err != nil || len(plan.Nodes) < 2 {
		t.Errorf("%d nodes are planned, %v", len(plan.Nodes), err)
	}
}

// heap returns the memory in use after a garbage collection, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// size returns the size of the database, in bytes.
func (b *bed) size() int64 {
	b.t.Helper()
	info, err := os.Stat(filepath.Join(b.opts.Dir, "manager.db"))
	if err != nil {
		b.t.Fatal(err)
	}
	return info.Size()
}

// TestRates: a member that floods a topic, or asks for places without end, is held to a
// rate, and the others are not.
func TestRates(t *testing.T) {
	b := newBed(t, "a", "b")
	now, taken := b.now, 0
	for range 10 * messageBurst {
		if b.admitMessage("a", wire.Reports, now) == nil {
			taken++
		}
	}
	if taken != messageBurst {
		t.Errorf("%d messages at once were taken, want %d", taken, messageBurst)
	}
	if b.admitMessage("b", wire.Reports, now) != nil || b.admitMessage("a", wire.Heartbeats, now) != nil {
		t.Error("another node, or another topic, pays for it")
	}
	taken = 0
	for i := range 1000 { // for 10 s
		if b.admitMessage("a", wire.Reports, now.Add(time.Duration(i)*10*time.Millisecond)) == nil {
			taken++
		}
	}
	if taken < 195 || taken > 205 {
		t.Errorf("%d messages in 10 s were taken, want 200", taken)
	}
}
