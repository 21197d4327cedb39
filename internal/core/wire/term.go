// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"time"
)

// Term bounds an order in time. It is part of the envelope, so no kind of order can be
// sent without one.
//
// For example, an order sealed at 12:00 with Until 12:10 is refused from 12:11 on (Skew),
// whatever the bus has kept it for. One with sequence 7 about container web is refused
// once the node has seen sequence 8 about web, also after a restart of the node.
type Term struct {
	Until time.Time `json:"until,omitzero"` // the order is not begun after that
	Seq   uint64    `json:"seq,omitempty"`  // grows with each order of a manager; nanoseconds since 1970 or more
}

// Skew is how far the clocks of manager and node may be apart: an order is obeyed
// until so long after its deadline by the node's clock.
const Skew = time.Minute

// Errors of an order that came too late, or after a newer one.
var (
	ErrLate     = errors.New("order past its deadline")
	ErrReplayed = errors.New("order repeated after a newer one")
)

// Order is a message that changes something on the node that it is sent to.
type Order interface {
	Message
	// Object names what the order changes. Of the orders of one kind about one object,
	// only a newer one than the last is obeyed.
	Object() string
}

// Object implements Order: the container.
func (m Move) Object() string { return m.Container }

// Object implements Order: the workload.
func (a Apply) Object() string { return a.Workload }

// Check says whether an order may still be obeyed at the given time.
func (t Term) Check(now time.Time) error {
	if t.Until.IsZero() || t.Seq == 0 {
		return fmt.Errorf("%w: an order without a deadline or a sequence", ErrMalformed)
	}
	if now.After(t.Until.Add(Skew)) {
		return fmt.Errorf("%w: it was to be begun before %s, and it is %s here; if it was sent just now, set the clocks of manager and node",
			ErrLate, t.Until.UTC().Format(time.DateTime), now.UTC().Format(time.DateTime))
	}
	return nil
}
