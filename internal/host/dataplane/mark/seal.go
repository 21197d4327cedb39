// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// While a workload is known by its cgroup, a program at each device above a link, and at lo,
// seals the packets of its sockets (bpf/marking/owner.h). All links of a namespace share these
// programs, and have the same workloads. A program stays on a device that has left its link
// until the last such workload, or the last link, is gone: it writes nothing but what is true.

// sealer is a Marker at the devices above links.
type sealer struct{ *Marker }

// sealedPlace is a device above a link, or by innerLo the namespace of a workload, by its inode.
type sealedPlace struct {
	hook
	index int
}

// Moved reports whether there was a device above the link, or a namespace of a workload, at the
// last MissingAtLink that AttachLinkRules has not met: no program has taken anything away there.
func (m *Marker) Moved() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsealed
}

// set brings the programs to the devices above a link, or takes them off.
func (s sealer) set(link device.Device, state plan.State, sockets Sockets) error {
	if !sockets.Sealed {
		return errors.Join(detachAll(s.at(above)), detachAll(s.at(innerLo)), detachAll(s.at(innerNote)))
	}
	devices, err := s.conn.Above(link)
	if err != nil {
		return err
	}
	s.sealed = map[sealedPlace]bool{}
	for _, dev := range devices {
		if err := s.attachTo(dev, state, sockets); err != nil && !errors.Is(err, dataplane.ErrNoDevice) {
			return err
		}
		s.sealed[sealedPlace{above, dev.Index}] = true
	}
	_, err = s.at(above).list() // removes the pins of devices that are gone
	return errors.Join(err, s.setInner(state, sockets))
}

// attachTo brings the program to a device.
func (s sealer) attachTo(dev device.Device, state plan.State, sockets Sockets) error {
	return s.attach(above, dev.Index, dev.Name, 0, Marking{}, s.seals(state, sockets))
}

// seals makes a program one that seals. It is the one at lo, if that is the wanted one: the
// kernel takes a while to verify one, and many devices may be above the links of a host.
func (s sealer) seals(state plan.State, sockets Sockets) func(*program) {
	return func(p *program) {
		p.serveLate(lateOf(state))
		p.reown(sockets)
		want := p.identity()
		p.running = func() *ebpf.Program { return s.running(want) }
	}
}

// running returns the program at lo, nil if it is another one than wanted.
func (s sealer) running(want identity) *ebpf.Program {
	if there, err := s.at(above).read(loopback); err != nil || there != want {
		return nil
	}
	for id, who := range s.identified { // read has put it there
		if who != want {
			continue
		}
		if prog, err := ebpf.NewProgramFromID(id); err == nil {
			return prog
		}
	}
	return nil
}

const loopback = 1 // index of lo in every network namespace

// missing says at which devices above a link the program was removed.
func (s sealer) missing(link device.Device, state plan.State) ([]string, error) {
	s.unsealed = false
	sockets, err := s.Sockets(state)
	if err != nil || !sockets.Sealed {
		return nil, err
	}
	devices, err := s.conn.Above(link)
	if err != nil {
		return nil, err
	}
	var lost []string
	for _, dev := range devices {
		_, err := s.at(above).read(dev.Index)
		switch {
		case errors.Is(err, errNotOurs):
			lost = append(lost, s.lost(sealedPlace{above, dev.Index}, dev.Name)...)
		case errors.As(err, new(preceded)):
			lost = append(lost, fmt.Sprintf("%s: %v", dev.Name, err))
		case err != nil && !errors.Is(err, dataplane.ErrNoDevice):
			return nil, err
		}
	}
	inside, err := s.missingInner(state)
	return append(lost, inside...), err
}

// lost says that the program is missing at a place, unless it has never been there.
func (s sealer) lost(at sealedPlace, name string) []string {
	if !s.sealed[at] {
		s.unsealed = true
		return nil
	}
	return []string{"packets of sockets are not sealed at " + name}
}
