// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// sent is what the classes of a qdisc have sent, those that the plan no longer has among them. The
// qdisc counts by number: what a class has sent stays there, and the next class of that number
// counts on.
type sent struct {
	total   dataplane.Sent
	seen    map[plan.ClassID]dataplane.Sent // when they were read last; nil = none was read
	leaving map[plan.ClassID]bool           // the plan no longer has them, and packets may wait there
}

// begin reads the classes of all numbers, of which an earlier agent had some.
func (s *sent) begin(o *object) error {
	s.seen = map[plan.ClassID]dataplane.Sent{}
	for id := range plan.ClassID(o.classes.MaxEntries()) {
		c, err := o.class(id)
		if err != nil {
			return err
		}
		if c.SentPackets > 0 {
			s.add(id, c)
		}
	}
	return nil
}

// add takes in what a class has sent. A group sends what its members do.
func (s *sent) add(id plan.ClassID, c qdiscWeirClass) {
	before, now := s.seen[id], dataplane.Sent{Packets: c.SentPackets, Bytes: c.SentBytes}
	s.seen[id] = now
	if c.Group == 0 {
		s.total.Packets += now.Packets - before.Packets
		s.total.Bytes += now.Bytes - before.Bytes
	}
}

// leaves notes that the plan no longer has a class.
func (s *sent) leaves(class plan.Class) {
	if class.Group {
		return
	}
	if s.leaving == nil {
		s.leaving = map[plan.ClassID]bool{}
	}
	s.leaving[class.ID] = true
}

// read returns the classes that are leaving, each until nothing waits in it. Those of have are
// there again.
func (s *sent) read(o *object, have plan.State) (list []dataplane.Leaving, err error) {
	if s.seen == nil {
		if err := s.begin(o); err != nil {
			return nil, err
		}
	}
	for id := range s.leaving {
		if _, again := have.Class(id); again {
			delete(s.leaving, id)
			continue
		}
		c, err := o.class(id)
		if err != nil {
			return nil, err
		}
		s.add(id, c)
		list = append(list, dataplane.Leaving{ID: id, Sent: s.seen[id]})
		if c.Qlen == 0 && c.Held == 0 {
			delete(s.leaving, id)
		}
	}
	return list, nil
}
