// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PortRange is a range of ports, both ends included.
type PortRange struct{ From, To int }

// DefaultPorts are the ports of the host that a container may publish: none that an
// unprivileged process could not take.
var DefaultPorts = []PortRange{{1024, 65535}}

// ParsePorts reads "80" or "1024-65535".
func ParsePorts(text string) (PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	from, err := strconv.Atoi(first)
	to := from
	if err == nil && isRange {
		to, err = strconv.Atoi(last)
	}
	if err != nil || from < 1 || to > 65535 || from > to {
		return PortRange{}, fmt.Errorf("%q is no range of ports; write such as 443 or 1024-65535", text)
	}
	return PortRange{from, to}, nil
}

func (r PortRange) String() string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

// Port reports whether a container may publish a port of the host; 0 is one that the
// engine chooses. A container that is started before the agent would keep the agent from
// its own ports, so no range includes those.
func (a Rules) Port(port int) bool {
	ranges := a.Ports
	if ranges == nil {
		ranges = DefaultPorts
	}
	if slices.Contains(a.Reserved, port) {
		return slices.Contains(ranges, PortRange{port, port})
	}
	return port == 0 || slices.ContainsFunc(ranges, func(r PortRange) bool { return r.From <= port && port <= r.To })
}
