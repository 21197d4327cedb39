// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/node/gate"
	"weir/internal/cluster/node/guest"
	"weir/internal/core/wire"
)

// dripping is a body that goes on for ever, a byte now and then.
type dripping struct{ ctx context.Context }

func (d dripping) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, io.EOF
	case <-time.After(100 * time.Millisecond):
		p[0] = ' '
		return 1, nil
	}
}

// longest returns a call of a length whose lists take many times that in memory:
// objects, as many as may be, and then texts.
func longest(bytes, objects int) []byte {
	const before, each, text, after = `{"order":{"container":{"volumes":[`, `{},`, `"",`, `""]}}}`
	volumes := min(objects, (bytes-len(before)-len(after)-100)/len(each))
	many := before + strings.Repeat(each, volumes) + `{}],"ports":[`
	return []byte(many + strings.Repeat(text, (bytes-len(many)-len(after))/len(text)) + after)
}

// TestOverload: a member opens 1,000 connections, makes 200 calls that never come in whole
// and sends the longest descriptions that there can be, 200 at once. The agent's memory
// stays bounded, and the calls of an honest node go on meanwhile.
func TestOverload(t *testing.T) {
	const (
		connections = 1000
		calls       = 200
		most        = 64 << 20 // bytes of memory, the attacker's own included
		patience    = 5 * time.Second
	)
	// Garbage counts for little then, however large the heap is that tests before have left.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	c := newCluster(t)
	a, b, h := c.node("a", 100e6), c.node("b", 100e6), c.node("h", 100e6)
	c.world.put("h", "web")
	c.up(3)
	soon := time.Now().Add(time.Hour)
	order := c.seal(c.managerKey(), "a", wire.Move{ID: "m-a", Container: "x", From: "a", To: "b", Deadline: soon})
	honest := wire.Move{ID: "m-h", Container: "web", From: "h", To: "b", Address: b.listener.Addr().String(), Deadline: soon}
	target := h.moves.Target(honest, c.seal(c.managerKey(), "h", honest))
	long := longest(guest.MaxDescription, guest.MaxObjects-4)
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running sync.WaitGroup
	peak := watchHeap(ctx, &running)
	refused := map[int]*atomic.Int32{0: {}, http.StatusConflict: {}, http.StatusTooManyRequests: {}, http.StatusOK: {}}

	var open []net.Conn
	for range connections {
		if conn, err := tls.Dial("tcp", honest.Address, a.members.ClientTLS("b")); err == nil {
			open = append(open, conn)
		}
	}
	if alive := stillOpen(open); alive > gate.ConnectionsEach {
		t.Errorf("%d connections of one node stay open; %d are its limit", alive, gate.ConnectionsEach)
	} else {
		t.Logf("%d of %d connections stay open", alive, connections)
	}
	t.Logf("memory grew by %.1f MB while they were open", float64(peak.Load()-before)/1e6)
	for _, conn := range open {
		conn.Close()
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.members.ClientTLS("b"), MaxConnsPerHost: gate.ConnectionsEach}}
	count := func(status int) {
		if n := refused[status]; n != nil {
			n.Add(1)
		}
	}
	for range calls {
		running.Go(func() {
			count(attack{target: b, verb: "do", permission: order, stream: dripping{ctx}}.status(client))
		})
		running.Go(func() { count(attack{target: b, verb: "lacking", permission: order, body: long}.status(client)) })
	}
	o := orderOf("m-h", "web", "h", "b")
	slowest := time.Duration(0)
	for range 50 {
		begun := time.Now()
		within, stop := context.WithTimeout(ctx, patience)
		_, err := target.Facts(within)
		if err == nil {
			_, err = target.Lacking(within, o)
		}
		stop()
		slowest = max(slowest, time.Since(begun))
		if err != nil {
			t.Fatalf("an honest node is kept out: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	running.Wait()
	grown := peak.Load() - before
	t.Logf("memory grew by %.1f MB at most; an honest call took %v at most; answers: %d refused, %d too many, %d cut off",
		float64(grown)/1e6, slowest.Round(time.Millisecond), refused[http.StatusConflict].Load(), refused[http.StatusTooManyRequests].Load(), refused[0].Load())
	if grown > most {
		t.Errorf("memory grew by %d bytes, more than %d", grown, most)
	}
	if refused[http.StatusOK].Load() > 0 {
		t.Errorf("%d hostile calls were answered", refused[http.StatusOK].Load())
	}
}

// watchHeap notes the most memory that was in use at a time, until ctx ends.
func watchHeap(ctx context.Context, running *sync.WaitGroup) *atomic.Int64 {
	var peak atomic.Int64
	running.Go(func() {
		for ctx.Err() == nil {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), int64(m.HeapAlloc)))
			time.Sleep(5 * time.Millisecond)
		}
	})
	return &peak
}

// stillOpen counts the connections that the other end has not closed.
func stillOpen(list []net.Conn) int {
	time.Sleep(time.Second)
	list = slices.DeleteFunc(slices.Clone(list), func(conn net.Conn) bool {
		// A read that begins after its deadline does not look at what has come, and a busy
		// machine may take its time before one begins.
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := conn.Read(make([]byte, 1))
		timeout, ok := err.(interface{ Timeout() bool })
		return !ok || !timeout.Timeout()
	})
	return len(list)
}

// TestStrangersMakeRoom: connections that show no certificate are few, and keep no member
// out.
func TestStrangersMakeRoom(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.up(2)
	var open []net.Conn
	for range 3 * gate.ConnectionsUnknown {
		conn, err := net.Dial("tcp", b.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		open = append(open, conn)
	}
	conn, err := tls.Dial("tcp", b.listener.Addr().String(), a.members.ClientTLS("b"))
	if err != nil {
		t.Fatalf("a member is kept out: %v", err)
	}
	defer conn.Close()
	if stillOpen([]net.Conn{conn}) != 1 {
		t.Error("the member's connection was closed")
	}
	// The node takes them off the kernel's hands one by one.
	left := stillOpen(open)
	for tries := 1; left > gate.ConnectionsUnknown && tries < 10; tries++ {
		left = stillOpen(open)
	}
	if left > gate.ConnectionsUnknown {
		t.Errorf("%d connections of nobody stay open; %d are the limit", left, gate.ConnectionsUnknown)
	}
}

// TestBodiesThatStandStill: a part that makes no progress ends, and so does a call that
// does not come in.
func TestBodiesThatStandStill(t *testing.T) {
	c := newCluster(t)
	a, o := c.node("a", 100e6), c.options("b")
	o.stall = 300 * time.Millisecond
	b := c.run(o, newAgent(c.world, "b", 100e6))
	c.world.put("a", "web")
	c.up(2)
	m := c.hostileMove(a, b, orderOf("m-1", "web", "a", "b"))
	gate := make(chan struct{})
	defer close(gate)
	begun := time.Now()
	if status := <-m.slowly(migrate.Part{Kind: migrate.PartLayer}, gate); status == http.StatusOK {
		t.Error("a part that has not come whole is taken")
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v to see that nothing comes", took)
	}
	if what := b.busy("m-1"); what != "" {
		t.Errorf("%s is still under way", what)
	}
	m.want(http.StatusOK, "the part once more", m.part(migrate.Part{Kind: migrate.PartLayer}))
}

// TestBusyNodesAreAskedAgain: a node that is told that there are too many calls asks
// again, and its move is made.
func TestBusyNodesAreAskedAgain(t *testing.T) {
	c := newCluster(t)
	c.node("a", 100e6)
	b := c.node("b", 100e6)
	c.world.put("a", "web")
	c.up(2)
	c.seen(1)
	var leave []func()
	for range gate.QuestionsAll {
		out, over := b.calls.Enter("x"+peerOf(len(leave)), true)
		if over != nil {
			t.Fatal(over)
		}
		leave = append(leave, out)
	}
	time.AfterFunc(time.Second, func() {
		for _, f := range leave {
			f()
		}
	})
	c.moved("web", "b")
	if !b.log.Has("calls of a node refused", "reason=too-many", "from=a") || b.refusedCalls() == 0 {
		t.Errorf("b has refused nothing:\n%s", b.log)
	}
}

// peerOf makes names of which each has gate.QuestionsEach.
func peerOf(n int) string { return string(rune('a' + n/gate.QuestionsEach)) }
