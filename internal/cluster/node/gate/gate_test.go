// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"weir/internal/refusal"
)

// TestCallsOfOneAndOfAll: a node over its limit keeps no other out, and a call that has
// ended makes room.
func TestCallsOfOneAndOfAll(t *testing.T) {
	c := NewCalls()
	fill := func(peer string, question bool, want int) (leave []func()) {
		t.Helper()
		for {
			out, over := c.Enter(peer, question)
			if over != nil {
				if len(leave) != want {
					t.Errorf("%d calls of %s were let in, want %d: %v", len(leave), peer, want, over)
				}
				return leave
			}
			leave = append(leave, out)
		}
	}
	calls := fill("a", false, CallsEach)
	if _, over := c.Enter("a", true); over == nil || over.Kind != refusal.TooMany {
		t.Errorf("a question beside all calls: %v", over)
	}
	questions := fill("b", true, QuestionsEach)
	for i := 1; i < QuestionsAll/QuestionsEach; i++ {
		fill(fmt.Sprint("n", i), true, QuestionsEach)
	}
	if _, over := c.Enter("z", true); over == nil || over.Kind != refusal.Busy {
		t.Errorf("a question beside all questions: %v", over)
	}
	if leave, over := c.Enter("z", false); over != nil {
		t.Errorf("a step beside all questions: %v", over)
	} else {
		leave()
	}
	questions[0]()
	fill("z", true, 1)
	for _, leave := range calls {
		leave()
	}
	fill("a", false, CallsEach)
}

// TestLinesAboutOneNode: a line in the log about a node is due once in sayEvery.
func TestLinesAboutOneNode(t *testing.T) {
	c, now := NewCalls(), time.Now()
	for _, x := range []struct {
		peer  string
		after time.Duration
		want  bool
	}{{"a", 0, true}, {"a", sayEvery - 1, false}, {"b", sayEvery - 1, true}, {"a", sayEvery, true}, {"a", sayEvery + 1, false}} {
		if got := c.Due(x.peer, now.Add(x.after)); got != x.want {
			t.Errorf("%s after %v: %v", x.peer, x.after, got)
		}
	}
}

// TestStrangersMakeRoom: of the connections that have shown no certificate, the oldest is
// closed; those of members stay, up to their limit.
func TestStrangersMakeRoom(t *testing.T) {
	l := NewListener(nil)
	open := func() *connection {
		conn, other := net.Pipe()
		t.Cleanup(func() { other.Close() })
		return &connection{Conn: conn, of: l, since: time.Now()}
	}
	first := open()
	if oldest := l.add(first); oldest != nil {
		t.Fatal("the first connection has to make room")
	}
	if err := l.admit(first, "a"); err != nil {
		t.Fatal(err)
	}
	var strangers []*connection
	for range ConnectionsUnknown {
		c := open()
		if oldest := l.add(c); oldest != nil {
			t.Fatalf("stranger %d: a connection has to make room", len(strangers))
		}
		strangers = append(strangers, c)
	}
	if oldest := l.add(open()); oldest != strangers[0] {
		t.Errorf("%p has to make room, want %p", oldest, strangers[0])
	} else if err := oldest.Close(); err != nil {
		t.Error(err)
	}
	if err := l.admit(strangers[0], "b"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection that was closed: %v", err)
	}
	for i := 1; i < ConnectionsEach; i++ {
		c := open()
		l.add(c)
		if err := l.admit(c, "a"); err != nil {
			t.Fatalf("connection %d of a member: %v", i, err)
		}
	}
	if err := l.admit(open(), "a"); err == nil {
		t.Errorf("%d connections of one member", ConnectionsEach+1)
	}
	if err := l.admit(open(), "b"); err != nil {
		t.Errorf("another member: %v", err)
	}
	first.Close()
	first.Close() // counts once
	if l.each["a"] != ConnectionsEach-1 {
		t.Errorf("%d connections of a", l.each["a"])
	}
}
