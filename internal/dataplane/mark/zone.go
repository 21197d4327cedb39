// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
	"weir/internal/plan"
)

// zonePriority puts the filters of zones behind the program at the link.
const zonePriority = filterPriority + 1

// Zone is a zone of a link, whose packets wait in the qdisc of an IFB.
type Zone struct {
	Link  device.Device
	IFB   int          // index of the device
	Class plan.ClassID // of the zone on the link
	Area  *dataplane.Area
}

func (m *Marker) zoneFilter(z Zone) device.Filter {
	at := redirect{m}.filterTo(z.Link.Index, z.IFB)
	at.Priority = zonePriority
	return at
}

// AttachZone carries what leaves by a link for one of its zones to the zone's IFB, and has
// what comes back from there belong to the zone's class. state has the cgroups whose sockets
// are told apart. It may be called again, and replaces the program in one step.
func (m *Marker) AttachZone(z Zone, state plan.State) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	want, err := m.zoneProgram(z, state)
	if err == nil {
		err = m.setFilter(m.zoneFilter(z), z.Link.Name, want)
	}
	return device.Explain("carry packets of "+z.Link.Name+" to the IFB of a zone", err)
}

func (m *Marker) zoneProgram(z Zone, state plan.State) (program, error) {
	header := 0
	if z.Link.Ethernet {
		header = ethernetHeader
	}
	p, err := compile(classifyProgWeirRulesZone, z.Class, m.mask, Marking{}, header)
	if err != nil {
		return p, err
	}
	sockets, err := m.Sockets(state)
	if err != nil {
		return p, err
	}
	p.redirect(dataplane.Inward{IFB: z.IFB, Area: z.Area})
	p.reown(sockets)
	return p, nil
}

// DetachZone lets the packets of a zone leave by the link as others do. It is no error if
// nothing was attached.
func (m *Marker) DetachZone(z Zone) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return device.Explain("carry no packets of "+z.Link.Name+" to the IFB of a zone", m.deleteFilter(m.zoneFilter(z)))
}

// MissingZone says whether a link is without the filter that AttachZone has put there.
func (m *Marker) MissingZone(z Zone) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.readFilter(m.zoneFilter(z))
	if errors.Is(err, errNotOurs) {
		return []string{"the filter of the zone is gone"}, nil
	}
	return nil, err
}
