// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/mark"
)

// own tells the qdisc to which class the packets of local sockets belong. It asks the
// kernel each time: cgroups come and go without a change of the plan.
func (b *Backend) own(want plan.State) error {
	if b.opts.IFB() {
		return nil // no socket sends to an IFB
	}
	sockets, err := b.marker.Sockets(want)
	if err != nil {
		return err
	}
	if err := b.obj.own(sockets); err != nil {
		return fmt.Errorf("tell the sockets of workloads apart on %s: %w", b.device, err)
	}
	return nil
}

// own makes the qdisc's table of cgroups that of s. Each entry is in force at once.
func (o *object) own(s mark.Sockets) error {
	have, err := o.owned()
	if err != nil {
		return err
	}
	for id := range have {
		if _, ok := s.Owners[id]; ok {
			continue
		}
		if err := o.owners.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	for id, lane := range s.Owners {
		if former, ok := have[id]; ok && former == lane {
			continue
		}
		err := o.owners.Put(id, lane)
		if errors.Is(err, unix.E2BIG) {
			return fmt.Errorf("the link has %d cgroups of workloads already; attach fewer of them", o.owners.MaxEntries())
		}
		if err != nil {
			return err
		}
	}
	return o.sockets.Put(uint32(0), qdiscWeirSockets{Levels: s.Levels, Steered: 1})
}

// owned reads the qdisc's table of cgroups.
func (o *object) owned() (map[uint64]uint32, error) {
	have := map[uint64]uint32{}
	var id uint64
	var lane uint32
	each := o.owners.Iterate()
	for each.Next(&id, &lane) {
		have[id] = lane
	}
	return have, each.Err()
}
