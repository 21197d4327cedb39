// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"weir/internal/base/statefile"
	"weir/internal/core/wire"
)

// sequence remembers the newest order of each kind about each object in a file, so that
// the node does not obey an older one after it, whichever peer brings it. An entry is
// kept until its order's deadline has passed: after that, the deadline refuses all that
// were before it.
type sequence struct {
	file string

	mu   sync.Mutex
	last map[string]wire.Term // by kind and object
}

// openSequence reads the file, which need not exist.
func openSequence(file string) (*sequence, error) {
	s := &sequence{file: file, last: map[string]wire.Term{}}
	if err := statefile.Read(file, &s.last); err != nil {
		return nil, fmt.Errorf("by which repeated orders are known: %w; if it is damaged, remove it", err)
	}
	return s, nil
}

// admit says whether an order may be begun, and writes down that it came. The same
// order may come again, see Move and Apply: their ids say what was done already. An
// error that is none of wire's is the disk's.
func (s *sequence) admit(o wire.Order, t wire.Term, now time.Time) error {
	if err := t.Check(now); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := o.Kind() + " " + o.Object()
	switch last := s.last[key]; {
	case t.Seq < last.Seq:
		return fmt.Errorf("%w: sequence %d, and %d was here", wire.ErrReplayed, t.Seq, last.Seq)
	case t.Seq == last.Seq:
		return nil
	}
	next := maps.Clone(s.last)
	next[key] = t
	maps.DeleteFunc(next, func(_ string, t wire.Term) bool { return errors.Is(t.Check(now), wire.ErrLate) })
	if err := statefile.Write(s.file, next); err != nil {
		return fmt.Errorf("sequence of an order cannot be kept: %w", err)
	}
	s.last = next
	return nil
}
