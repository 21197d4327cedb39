// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/guest"
	"weir/internal/cluster/node/incoming"
	"weir/internal/core/wire"
)

// hostileMove is a move whose source is the test, with the manager's genuine grant.
type hostileMove struct {
	t      *testing.T
	a, b   *testNode
	client *http.Client
	order  migrate.MoveSpec
	grant  []byte
}

// move begins a move of web from a to b with a grant of the manager's.
func (c *cluster) hostileMove(a, b *testNode, o migrate.MoveSpec) *hostileMove {
	c.t.Helper()
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("log of %s:\n%s", b.Name(), b.log)
		}
	})
	m := &hostileMove{t: c.t, a: a, b: b, order: o, client: &http.Client{Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS(b.Name())}}}
	grant, text := granted(o, time.Now().Add(time.Minute))
	m.grant = c.seal(c.managerKey(), a.Name(), grant)
	begin, status := attack{target: b, verb: "begin", permission: m.grant, body: text}, 0
	// b keeps a connection for half a second when it refuses a part that it has not read,
	// and lets a open 64: those of the move before may have to end first.
	eventually(func() bool { status = begin.status(m.client); return status != 0 })
	if status != http.StatusOK {
		c.t.Fatalf("begin: %d, want %d", status, http.StatusOK)
	}
	return m
}

func (m *hostileMove) want(status int, what string, x attack) {
	m.t.Helper()
	if got, answer := x.send(m.t, m.client); got != status {
		m.t.Fatalf("%s: %d %s, want %d", what, got, answer, status)
	}
}

func (m *hostileMove) step(s move.Step) attack {
	return attack{target: m.b, verb: "do", permission: m.grant, body: callBody(remote.Call{Step: s}, "")}
}

// part returns a part with its statement, as the double of an engine sends it.
func (m *hostileMove) part(p migrate.Part) attack {
	content := p.String() + strings.Repeat("x", 1<<20)
	x := attack{target: m.b, verb: "receive", permission: m.grant, body: callBody(remote.Call{Part: &p}, content)}
	end := remote.NewHashed(strings.NewReader(content), func(sum string, bytes int64) error {
		sealed, err := m.a.members.Seal(wire.Statements(m.b.Name()), m.order.Move+"/"+p.String(), wire.Statement{Move: m.order.Move, Part: p.String(), SHA256: sum, Bytes: bytes})
		x.statement = base64.StdEncoding.EncodeToString(sealed)
		return err
	})
	if _, err := io.Copy(io.Discard, end); err != nil {
		m.t.Fatal(err)
	}
	return x
}

// slowly sends a part of which the last byte waits for the gate; the answer's status
// comes by the channel, 0 for none.
func (m *hostileMove) slowly(p migrate.Part, gate chan struct{}) chan int {
	x := m.part(p)
	last := len(x.body) - 1
	x.stream = io.MultiReader(bytes.NewReader(x.body[:last]), &gated{gate: gate, r: bytes.NewReader(x.body[last:])})
	done := make(chan int, 1)
	go func() { done <- x.status(m.client) }()
	if !eventually(func() bool { return m.b.busy(m.order.Move) == "receive "+p.String() }) {
		m.t.Fatalf("b does not receive %s", p)
	}
	return done
}

// busy returns the step or part of a move that is under way.
func (n *testNode) busy(move string) string {
	_, doing, _ := n.incoming.Guest(move)
	return doing
}

// guest returns the record of a move.
func (n *testNode) guest(move string) guest.Arrival {
	return guestOf(n.incoming, move)
}

func guestOf(s *incoming.Server, move string) guest.Arrival {
	r, _, _ := s.Guest(move)
	return r
}

// unsettled returns copies that were confirmed and whose settings are to be dealt with.
func (n *testNode) unsettled() []guest.Arrival {
	return n.incoming.Guests(func(r guest.Arrival) bool { return r.End == move.Confirmed && !r.Applied })
}

// gated waits before the first byte.
type gated struct {
	gate chan struct{}
	r    io.Reader
}

func (g *gated) Read(p []byte) (int, error) {
	<-g.gate
	return g.r.Read(p)
}

// left returns, as text, what a move has left on its target.
func (w *world) left(move string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(fmt.Sprint(w.copy[move], " ", strings.Join(w.brought[move], " ")))
}

// TestDiscardBesideOtherSteps: a source that has its copy discarded while a step of it is
// under way leaves neither a container nor an image on the target.
func TestDiscardBesideOtherSteps(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	image := migrate.Part{Kind: migrate.PartImage}
	for name, begin := range map[string]func(m *hostileMove, gate chan struct{}) chan int{
		"create":     func(m *hostileMove, gate chan struct{}) chan int { return m.held(move.Create, gate) },
		"pull-image": func(m *hostileMove, gate chan struct{}) chan int { return m.held(move.PullImage, gate) },
		"image":      func(m *hostileMove, gate chan struct{}) chan int { return m.slowly(image, gate) },
	} {
		t.Run(name, func(t *testing.T) {
			m := c.hostileMove(a, b, orderOf("m-"+name, "web", "a", "b"))
			gate := make(chan struct{})
			open := sync.OnceFunc(func() { close(gate) })
			defer open()
			busy := begin(m, gate)
			discarded := make(chan int, 1)
			go func() { discarded <- m.step(move.Discard).status(m.client) }()
			time.Sleep(300 * time.Millisecond)
			open() // the engine, or the source, goes on
			status := <-discarded
			for range 20 { // as an honest source would
				if status == http.StatusOK {
					break
				}
				time.Sleep(50 * time.Millisecond)
				status = m.step(move.Discard).status(m.client)
			}
			if status != http.StatusOK {
				t.Errorf("discard: %d", status)
			}
			if other := <-busy; other == http.StatusOK {
				t.Errorf("%s succeeds beside the discard", name)
			}
			if left := c.world.left(m.order.Move); left != "" {
				t.Errorf("left on b: %s", left)
			}
			if v := b.guest(m.order.Move); v.End != move.Discarded {
				t.Errorf("the guest's end is %q", v.End)
			}
		})
	}
}

// held asks for a step that the engine does not take before the gate is open, however
// early its caller gives up: an engine's daemon goes on by itself.
func (m *hostileMove) held(s move.Step, gate chan struct{}) chan int {
	w := m.b.agent.world
	w.mu.Lock()
	w.stubborn[s] = gate
	w.mu.Unlock()
	m.t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.stubborn, s)
	})
	done := make(chan int, 1)
	go func() { done <- m.step(s).status(m.client) }()
	if !eventually(func() bool { return m.b.busy(m.order.Move) == string(s) }) {
		m.t.Fatalf("b does not begin %s", s)
	}
	return done
}

// TestMemoryHeldOpenDuringRestore: nothing is restored while a part is still arriving.
func TestMemoryHeldOpenDuringRestore(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	o := orderOf("m-1", "web", "a", "b")
	o.PreCopy = true
	m := c.hostileMove(a, b, o)
	for _, s := range []move.Step{move.PullImage, move.Create} {
		m.want(http.StatusOK, string(s), m.step(s))
	}
	for _, p := range []migrate.PartKind{migrate.PartLayer, migrate.PartCheckpoint} {
		m.want(http.StatusOK, string(p), m.part(migrate.Part{Kind: p}))
	}
	gate := make(chan struct{})
	memory := m.slowly(migrate.Part{Kind: migrate.PartMemory}, gate)
	if status, answer := m.step(move.Restore).send(t, m.client); status == http.StatusOK || !strings.Contains(answer, "under way") {
		t.Errorf("restored while memory arrives: %d %s", status, answer)
	}
	if v := b.guest("m-1"); v.Tried {
		t.Error("a restore that was refused counts as tried")
	}
	close(gate)
	if status := <-memory; status != http.StatusOK {
		t.Errorf("memory: %d", status)
	}
	m.want(http.StatusOK, "restore", m.step(move.Restore))
	m.want(http.StatusOK, "confirm", m.step(move.Confirm))
}

// TestWhatComesLateIsSwept: an engine's daemon may end a step after its caller was cut
// off and the copy discarded. What that leaves is gone some time later.
func TestWhatComesLateIsSwept(t *testing.T) {
	t.Run("by the agent", func(t *testing.T) { sweeps(t, newCluster(t)) })
	t.Run("by the helper", func(t *testing.T) {
		c := newCluster(t)
		c.behindHelpers()
		sweeps(t, c)
	})
}

func sweeps(t *testing.T, c *cluster) {
	t.Helper()
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	m := c.hostileMove(a, b, orderOf("m-1", "web", "a", "b"))
	gate := make(chan struct{})
	c.world.mu.Lock()
	c.world.late[move.Create] = gate
	c.world.mu.Unlock()
	created := make(chan int, 1)
	go func() { created <- m.step(move.Create).status(m.client) }()
	if !eventually(func() bool { return b.busy("m-1") == "create" }) {
		t.Fatal("b does not begin to create")
	}
	m.want(http.StatusOK, "discard", m.step(move.Discard))
	if status := <-created; status == http.StatusOK {
		t.Error("create succeeds beside the discard")
	}
	close(gate)
	if !eventually(func() bool { return c.world.left("m-1") == "web" }) {
		t.Fatal("the daemon has not made its container")
	}
	b.incoming.Tidy(t.Context(), time.Now())
	if left := c.world.left("m-1"); left == "" {
		t.Error("swept at once: then it is too early")
	}
	b.afterSweep(t)
	if left := c.world.left("m-1"); left != "" {
		t.Errorf("left on b: %s", left)
	}
	if !b.guest("m-1").Swept {
		t.Error("it is not noted as swept")
	}
}

// TestRandomInterleavings sends all calls of a move at once, each after a random pause,
// many times. Each step succeeds at most once; in the end the copy is either confirmed,
// and there, or discarded, and nothing of it is left; and the disk knows the same.
func TestRandomInterleavings(t *testing.T) {
	const rounds = 25
	t.Logf("seed %d", *seed)
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	random := rand.New(rand.NewPCG(*seed, 1))
	ends := map[move.ContainerState]int{}
	for round := range rounds {
		name := fmt.Sprintf("c%d", round)
		o := orderOf(fmt.Sprintf("m-%d", round), name, "a", "b")
		o.PreCopy = true
		m := c.hostileMove(a, b, o)
		calls, x := m.everything(random)
		var wg sync.WaitGroup
		succeeded := make([]atomic.Int32, len(calls))
		for i := range calls {
			pause := time.Duration(random.IntN(30*(i+1))) * time.Millisecond / 10
			wg.Go(func() {
				time.Sleep(pause)
				for range 6 {
					if x[i].status(m.client) == http.StatusOK {
						succeeded[i].Add(1)
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if !eventually(func() bool { return m.step(move.Discard).status(m.client) == http.StatusConflict }) {
			t.Fatalf("round %d: it does not end", round)
		}
		for i, what := range calls {
			if n := succeeded[i].Load(); n > 1 {
				t.Errorf("round %d: %s has succeeded %d times", round, what, n)
			}
		}
		v := b.guest(o.Move)
		ends[v.End]++
		left, at := c.world.left(o.Move), c.world.where(name)
		switch {
		case v.End == move.Confirmed && (!strings.HasPrefix(left, name) || !slices.Equal(at, []string{"b"})):
			t.Errorf("round %d: confirmed, and left is %q, it runs on %v", round, left, at)
		case v.End == move.Discarded && (left != "" || len(at) > 0):
			t.Errorf("round %d: discarded, and left is %q, it runs on %v", round, left, at)
		case v.End == "":
			t.Errorf("round %d: it has no end", round)
		}
		m.client.CloseIdleConnections()
	}
	t.Logf("ends: %v", ends)
	if ends[move.Confirmed] == 0 || ends[move.Discarded] == 0 {
		t.Error("not both ends were seen: the test has not tried what it is for")
	}
	b.stop()
	again, err := incoming.Open(incoming.Options{Dir: filepath.Join(b.opts.Dir, "guests")})
	if err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		move := fmt.Sprintf("m-%d", round)
		if was, is := b.guest(move), guestOf(again, move); was.End != is.End {
			t.Errorf("%s is %q, and on the disk %q", move, was.End, is.End)
		}
	}
}

// everything is each call of a move, in the order of a migration; the discard only now and
// then, for it ends all others.
func (m *hostileMove) everything(random *rand.Rand) (names []string, calls []attack) {
	add := func(name string, x attack) { names, calls = append(names, name), append(calls, x) }
	add("pull-image", m.step(move.PullImage))
	add("create", m.step(move.Create))
	for _, k := range []migrate.PartKind{migrate.PartImage, migrate.PartMemory, migrate.PartLayer, migrate.PartCheckpoint} {
		add(string(k), m.part(migrate.Part{Kind: k}))
	}
	add("restore", m.step(move.Restore))
	add("confirm", m.step(move.Confirm))
	if random.IntN(2) == 0 {
		add("discard", m.step(move.Discard))
	}
	return names, calls
}
