// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"testing"
	"time"

	"weir/internal/core/refusal"
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
