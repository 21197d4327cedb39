// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"log/slog"

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

// Zones carries what leaves by links for their zones to the zones' IFBs.
type Zones struct{ m *Marker }

// NewZones prepares for that, as New does.
func NewZones(opts dataplane.Options, log *slog.Logger) (Zones, error) {
	m, err := New(opts, log)
	return Zones{m}, err
}

// Close closes the socket. Attached filters stay attached.
func (s Zones) Close() error { return s.m.Close() }

func (s Zones) filter(z Zone) device.Filter {
	at := redirect{s.m}.filterTo(z.Link.Index, z.IFB)
	at.Priority = zonePriority
	return at
}

// Attach carries what leaves by a link for one of its zones to the zone's IFB, and has
// what comes back from there belong to the zone's class. state has the cgroups whose sockets
// are told apart. It may be called again, and replaces the program in one step.
func (s Zones) Attach(z Zone, state plan.State) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	want, err := s.program(z, state)
	if err == nil {
		err = s.m.setFilter(s.filter(z), z.Link.Name, want)
	}
	return device.Explain("carry packets of "+z.Link.Name+" to the IFB of a zone", err)
}

func (s Zones) program(z Zone, state plan.State) (program, error) {
	header := 0
	if z.Link.Ethernet {
		header = ethernetHeader
	}
	p, err := compile(classifyProgWeirRulesZone, z.Class, s.m.carrier, Marking{}, header)
	if err != nil {
		return p, err
	}
	sockets, err := s.m.Sockets(state)
	if err != nil {
		return p, err
	}
	p.redirect(dataplane.Inward{IFB: z.IFB, Area: z.Area})
	p.reown(sockets)
	return p, nil
}

// Detach lets the packets of a zone leave by the link as others do. It is no error if
// nothing was attached.
func (s Zones) Detach(z Zone) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	return device.Explain("carry no packets of "+z.Link.Name+" to the IFB of a zone", s.m.deleteFilter(s.filter(z)))
}

// Missing says whether a link is without the filter that Attach has put there.
func (s Zones) Missing(z Zone) ([]string, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	_, err := s.m.readFilter(s.filter(z))
	if errors.Is(err, errNotOurs) {
		return []string{"the filter of the zone is gone"}, nil
	}
	return nil, err
}
