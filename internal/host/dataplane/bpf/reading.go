// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// justNow is for how long Counters believes that the qdisc is where Missing has seen it.
const justNow = 100 * time.Millisecond

// readings are what was read of classes last. A class of which the kernel has changed nothing is
// not counted again: on a link at rest most are such.
type readings struct {
	of      map[plan.ClassID]reading
	whole   map[plan.ClassID]dataplane.Counters // what was read of all classes last, groups with their members
	changes uint64                              // readings in which a class differed from the one before; 1 = none yet
}

// reading is what a class had.
type reading struct {
	class   qdiscWeirClass
	settled bool // it had the same before, so that nothing was under way when the rest of it was read
	counted dataplane.Counters
}

// forget has all classes read anew.
func (r *readings) forget() { r.of, r.whole, r.changes = nil, nil, max(r.changes, 1)+1 }

// same returns what a class was counted to have when it was last as it is now.
func (r *readings) same(id plan.ClassID, c *qdiscWeirClass) (dataplane.Counters, bool) {
	before, known := r.of[id]
	if !known || !before.settled || before.class != *c {
		return dataplane.Counters{}, false
	}
	return before.counted, true
}

// note keeps what a class was counted to have.
func (r *readings) note(id plan.ClassID, c *qdiscWeirClass, counted dataplane.Counters) {
	if r.of == nil {
		r.of = map[plan.ClassID]reading{}
	}
	before, known := r.of[id]
	settled := known && before.class == *c && c.WaitSince == 0 && c.Qlen == 0 && c.Held == 0
	if !settled {
		r.changes = max(r.changes, 1) + 1
	}
	r.of[id] = reading{*c, settled, counted}
}
