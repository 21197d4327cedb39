// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"slices"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/answers"
	"weir/internal/host/dataplane/mark/bypass"
	"weir/internal/host/dataplane/mark/group"
)

// Missing says which of the state's ports are no longer marked as they should be, one
// phrase each. Ports that are gone themselves are no news of ours.
func (m *Marker) Missing(state plan.State) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	for _, port := range state.Ports {
		if port.Cgroup != "" && m.opts.Inward != nil {
			continue // see Attach
		}
		who, err := m.readPort(port)
		switch {
		case errors.Is(err, errNotOurs):
			missing = append(missing, fmt.Sprintf("%s is not marked", port))
		case errors.As(err, new(preceded)):
			missing = append(missing, fmt.Sprintf("%s: %v", port, err))
		case errors.Is(err, dataplane.ErrNoDevice):
		case err != nil:
			return nil, err
		case who.class() != port.Class:
			missing = append(missing, fmt.Sprintf("%s is marked with class %d instead of %d", port, who.class(), port.Class))
		case port.Cgroup != "" && !port.Sockets:
			if held, err := m.bypass().Holds(port.Cgroup); err != nil {
				return nil, err
			} else if !held {
				missing = append(missing, fmt.Sprintf("%s may send past the qdisc", port))
			}
		}
	}
	return missing, nil
}

// MissingAtLink says whether the link dev, or a device above it, is without the program that
// AttachLink, or AttachLinkRules, has put there for the state.
func (m *Marker) MissingAtLink(dev device.Device, state plan.State, rulesOnly bool) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	wanted, err := tcx{m, egress}.wanted(dev, state)
	if err != nil {
		return nil, err
	}
	if !rulesOnly || wanted || m.splits.over != 0 {
		_, err := watched(m, egress, dev.Index)
		switch {
		case errors.Is(err, errNotOurs):
			missing = append(missing, "the marking program of the link is gone")
		case errors.As(err, new(preceded)):
			missing = append(missing, fmt.Sprintf("%s: %v", dev.Name, err))
		case err != nil:
			return nil, err
		}
	}
	if m.opts.IFB() {
		behind, err := pairs{m}.missing()
		return append(missing, behind...), err
	}
	unsealed, err := sealer{m}.missing(dev, state)
	if err != nil {
		return nil, err
	}
	if m.notes.Missing() {
		missing = append(missing, "for whom the kernel answers is not noted")
	}
	whole, err := splitter{m}.missing()
	return slices.Concat(missing, unsealed, whole), err
}

// readPort returns what marks a port: errNotOurs if nothing of Weir's does,
// dataplane.ErrNoDevice if the port is gone.
func (m *Marker) readPort(port plan.Port) (identity, error) {
	if port.Cgroup != "" {
		folder, err := group.Open(port.Cgroup)
		if err != nil {
			return identity{}, err
		}
		defer folder.Close()
		at, err := m.cgroupPin(groupHookOf(port).folder, folder.ID)
		if err != nil {
			return identity{}, err
		}
		return m.read(at)
	}
	who, err := watched(m, m.port(), port.Ifindex)
	if errors.Is(err, errNotOurs) {
		if _, gone := m.conn.LookupIndex(port.Ifindex); gone != nil {
			return identity{}, gone
		}
	}
	return who, err
}

// watched is m.at(h).read, which it asks for again only when the programs there have changed.
func watched(m *Marker, h hook, ifindex int) (identity, error) {
	return m.found.Get(ifindex, h.attach, h.folder, func() (identity, error) { return m.at(h).read(ifindex) })
}

// Gaps says what marking cannot hold on this kernel, one sentence each.
func (m *Marker) Gaps() (gaps []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if whole := (splitter{m}).gap(); whole != "" {
		gaps = append(gaps, whole)
	}
	if m.opts.IFB() {
		return gaps
	}
	for _, gap := range []string{bypass.Gap(), answers.Gap()} {
		if gap != "" {
			gaps = append(gaps, gap)
		}
	}
	return gaps
}
