// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"fmt"
	"sync"
	"time"

	"weir/internal/core/refusal"
)

// What other nodes may have this one do at once. A node has CopiesEach copies under way
// here, each with one call at a time, and asks a few questions beside them; so an honest
// one meets none of these. One that does is told to come back, and its agent does.
const (
	CopiesEach = 16             // copies of one node's containers
	CallsEach  = 2 * CopiesEach // calls of one node
	// Questions (facts, lacking, begin) are answered without a guest, so all nodes
	// together have a limit for them, of which none gets more than a part.
	QuestionsEach = 8
	QuestionsAll  = 64
)

// Calls counts the calls of other nodes that are under way.
type Calls struct {
	mu        sync.Mutex
	calls     map[string]int
	questions map[string]int
	all       int // questions
	said      map[string]time.Time
}

// NewCalls returns the count of no calls.
func NewCalls() *Calls {
	return &Calls{calls: map[string]int{}, questions: map[string]int{}, said: map[string]time.Time{}}
}

// Enter counts a call until leave. The error is the refusal of a call over a limit.
func (c *Calls) Enter(peer string, question bool) (leave func(), over *refusal.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.calls[peer] >= CallsEach:
		return nil, &refusal.Error{Kind: refusal.TooMany, Msg: fmt.Sprintf("%d calls of node %s are under way here", CallsEach, peer)}
	case question && c.questions[peer] >= QuestionsEach:
		return nil, &refusal.Error{Kind: refusal.TooMany, Msg: fmt.Sprintf("%d questions of node %s are under way here", QuestionsEach, peer)}
	case question && c.all >= QuestionsAll:
		return nil, &refusal.Error{Kind: refusal.Busy, Msg: fmt.Sprintf("%d questions of other nodes are under way here", QuestionsAll)}
	}
	c.calls[peer]++
	if question {
		c.questions[peer]++
		c.all++
	}
	return func() { c.leave(peer, question) }, nil
}

func (c *Calls) leave(peer string, question bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	less(c.calls, peer)
	if question {
		less(c.questions, peer)
		c.all--
	}
}

// less counts one less of a key, and forgets it at none.
func less(counts map[string]int, key string) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}

// sayEvery is between two lines in the log about one node's being over a limit.
const sayEvery = 10 * time.Second

// Due reports whether a line in the log about a node is due.
func (c *Calls) Due(peer string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.said[peer]) < sayEvery {
		return false
	}
	c.said[peer] = now
	return true
}
