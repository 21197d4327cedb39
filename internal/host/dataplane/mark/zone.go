// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"log/slog"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// zonePriority puts the filters of zones behind the program at the link.
const zonePriority = filterPriority + 1

// Zone is a zone of a link, whose packets wait in the qdisc of an IFB.
type Zone struct {
	Link  device.Device
	IFB   int          // index of the device, or of a pair's first end
	Back  int          // index of its second end; 0 = it is an IFB
	Class plan.ClassID // of the zone on the link
	Area  *dataplane.CompiledArea
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

// at is where the program of a zone with a pair is.
func (s Zones) at(z Zone) tcx { return tcx{s.m, diverting(z.IFB)} }

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
	switch {
	case err != nil:
	case z.Back != 0:
		want.split(splitter{s.m}.ready(state))
		err = s.at(z).attach(z.Link.Index, z.Link.Name, want)
	default:
		err = s.m.setFilter(s.filter(z), z.Link.Name, want)
	}
	return device.Explain("carry packets of "+z.Link.Name+" to the IFB of a zone", err)
}

func (s Zones) program(z Zone, state plan.State) (program, error) {
	header := 0
	if z.Link.Ethernet {
		header = ethernetHeader
	}
	name := classifyProgWeirRulesZone
	if z.Back != 0 {
		name = classifyProgWeirRulesArea
	}
	p, err := compile(name, z.Class, s.m.carrier, Marking{}, header)
	if err != nil {
		return p, err
	}
	sockets, err := s.m.Sockets(state)
	if err != nil {
		return p, err
	}
	p.redirect(dataplane.Inward{IFB: z.IFB, Back: z.Back, Area: z.Area})
	p.reown(sockets)
	return p, nil
}

// Detach lets the packets of a zone leave by the link as others do. It is no error if
// nothing was attached.
func (s Zones) Detach(z Zone) error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	take := func() error { return s.m.deleteFilter(s.filter(z)) }
	if z.Back != 0 {
		take = func() error { return s.at(z).detach(z.Link.Index) }
	}
	err := take()
	if dir, none := s.m.conn.PinDir(s.m.opts, s.at(z).hook.folder); none == nil {
		device.RemovePinDir(dir)
	}
	return device.Explain("carry no packets of "+z.Link.Name+" to the IFB of a zone", err)
}

// Missing says whether a link is without the filter that Attach has put there.
func (s Zones) Missing(z Zone) ([]string, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	var err error
	if z.Back != 0 {
		_, err = s.at(z).read(z.Link.Index)
	} else {
		_, err = s.m.readFilter(s.filter(z))
	}
	switch {
	case err == nil:
		return splitter{s.m}.missing()
	case errors.Is(err, errNotOurs):
		return []string{"the filter of the zone is gone"}, nil
	case errors.As(err, new(preceded)):
		return []string{fmt.Sprintf("%s: %v", z.Link.Name, err)}, nil
	}
	return nil, err
}
