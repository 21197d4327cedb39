// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/manager/moves"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

// noBus is a bus that nothing crosses: tests call the handlers themselves.
type noBus struct{ removed []string }

func (*noBus) Publish(context.Context, wire.Subject, string, []byte) error { return nil }
func (*noBus) Subscribe(ctx context.Context, _ string, _ wire.Subject, _ bus.Handler) error {
	<-ctx.Done()
	return nil
}
func (*noBus) Connected() bool                     { return true }
func (*noBus) Close() error                        { return nil }
func (*noBus) Admit(context.Context, string) error { return nil }
func (b *noBus) Remove(_ context.Context, node string) error {
	b.removed = append(b.removed, node)
	return nil
}

// bed is a manager without a network, whose clock the test moves.
type bed struct {
	*Manager
	t    *testing.T
	now  time.Time
	said uint64
	keys map[string]ed25519.PrivateKey
	has  map[string][]string // containers by node, for the profiles
	full map[string]uint64   // bit/s that mins of no container hold on a node
	dead map[string]bool     // nodes that say nothing
}

// newManager makes a manager of a new cluster, without a network.
func newManager(t testing.TB) *Manager {
	t.Helper()
	dir := t.TempDir()
	if _, err := Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	m, err := New(Options{Dir: dir, Automatic: planning.DefaultAutomatic(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.bus = &noBus{}
	t.Cleanup(func() { _ = m.db.Close() })
	return m
}

func keyOf(i int) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(fmt.Appendf(nil, "%032d", i)) }

// newBed makes a manager with members that are heard of, each with 4 CPUs and 8 GB.
func newBed(t *testing.T, nodes ...string) *bed {
	t.Helper()
	m := newManager(t)
	b := &bed{Manager: m, t: t, now: time.Now(), keys: map[string]ed25519.PrivateKey{}, has: map[string][]string{}, dead: map[string]bool{}, full: map[string]uint64{}}
	for i, name := range nodes {
		b.keys[name] = keyOf(i)
	}
	join(t, m, b.keys)
	b.pass(0)
	return b
}

// join makes members of nodes with these keys.
func join(t testing.TB, m *Manager, keys map[string]ed25519.PrivateKey) {
	t.Helper()
	made, err := m.members.NewToken(api.TokenRequest{Uses: api.AnyNumber})
	if err != nil {
		t.Fatal(err)
	}
	token, err := pki.ParseToken(made.Token)
	if err != nil {
		t.Fatal(err)
	}
	for node, key := range keys {
		request, err := pki.Request(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.members.Join(wire.JoinRequest{Node: node, Token: token.ID, Secret: token.Secret, Request: request}); err != nil {
			t.Fatal(err)
		}
	}
}

// pass moves the clock on, a second at a time, while all nodes that live send
// heartbeats and profiles.
func (b *bed) pass(d time.Duration) {
	for end := b.now.Add(d); ; b.now = b.now.Add(time.Second) {
		b.mu.Lock()
		for _, name := range b.members.Names() {
			if !b.dead[name] {
				b.nodes[name] = b.heard(name)
			}
		}
		b.mu.Unlock()
		b.tick(b.now)
		if !b.now.Before(end) {
			return
		}
	}
}

// heard is what a node that lives has just said of itself.
func (b *bed) heard(name string) *planning.Node {
	p := wire.Profile{V: wire.ProfileVersion, Node: name, Time: b.now, IntervalSeconds: 5,
		Capacity: wire.Capacity{CPUCores: 4, MemoryBytes: 8e9, NetworkTransmitBps: 100e6, NetworkReceiveBps: 100e6, GuaranteedBps: 100e6, GuaranteedElsewhereBps: b.full[name]}}
	for _, c := range b.has[name] {
		p.Containers = append(p.Containers, wire.ContainerProfile{ID: "id-" + c, Name: c, Engine: "docker", Usage: wire.Usage{CPUCores: 0.1, MemoryBytes: 100e6}})
	}
	return &planning.Node{Beat: wire.Heartbeat{Node: name, CRIU: "4.2.1", Address: name + ":7473", Engines: []wire.Engine{{Name: "docker"}}}, Heard: b.now, Got: b.now, History: []wire.Profile{p}}
}

// order makes a move that waits, as weir migrate does.
func (b *bed) order(container, from, to string) *moves.Move {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	mv := &moves.Move{Move: wire.Move{ID: newID("m", b.now), Container: container, From: from, To: to, Why: "test"}, State: wire.MoveWaiting, Created: b.now}
	c := &change{}
	bucketMoves.Put(&c.Transaction, mv.ID, mv)
	if err := b.write(c); err != nil {
		b.t.Fatal(err)
	}
	b.moves[mv.ID] = mv
	b.now = b.now.Add(time.Millisecond) // the next is younger
	b.dispatch(b.now)
	return mv
}

// report is what a node says about a move.
func (b *bed) report(mv *moves.Move, step string, state wire.MoveState) {
	b.t.Helper()
	b.said++
	r := wire.MoveReport{ID: mv.ID, Node: mv.From, Seq: uint64(b.now.UnixNano()) + b.said, Step: step, State: state}
	if err := b.reported(r, b.now); err != nil {
		b.t.Fatal(err)
	}
}

// state checks what a move is in.
func (b *bed) state(mv *moves.Move, want wire.MoveState) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.moves[mv.ID]; got.State != want {
		b.t.Errorf("move %s of %s is %s (%s), want %s", mv.ID, mv.Container, got.State, got.Error, want)
	}
}
