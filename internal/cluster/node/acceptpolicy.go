// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/api"
)

// accepted is what of a policy that came with a container this node takes. The error
// names the fields that it leaves out.
func (n *Node) accepted(c api.PolicyChange) (api.PolicyChange, error) {
	kept, left := n.acceptedFields(c, "")
	if left == nil {
		return kept, nil
	}
	return kept, fmt.Errorf("%s does not take %s with containers of others (cluster.accept.policy)", n.opts.Name, strings.Join(left, ", "))
}

// acceptedFields goes through the fields; prefix is what their names begin with.
func (n *Node) acceptedFields(c api.PolicyChange, prefix string) (kept api.PolicyChange, left []string) {
	kept = api.PolicyChange{Reset: c.Reset, AcceptGaps: c.AcceptGaps}
	take := func(field string, given bool, keep func()) {
		switch {
		case !given:
		case n.opts.AcceptPolicy == nil || slices.Contains(n.opts.AcceptPolicy, field):
			keep()
		default:
			left = append(left, prefix+field)
		}
	}
	take("weight", c.Weight != nil, func() { kept.Weight = c.Weight })
	take("min", c.Min != nil, func() { kept.Min = c.Min })
	take("max", c.Max != nil, func() { kept.Max = c.Max })
	take("reserve", c.Reserve != nil, func() { kept.Reserve = c.Reserve })
	take("limit_packets", c.LimitPackets != nil, func() { kept.LimitPackets = c.LimitPackets })
	take("limit_bytes", c.LimitBytes != nil, func() { kept.LimitBytes = c.LimitBytes })
	take("discipline", c.Discipline != nil, func() { kept.Discipline = c.Discipline })
	take("queues", c.Queues != nil, func() { kept.Queues = c.Queues })
	take("aqm", c.AQM != nil, func() { kept.AQM = c.AQM })
	take("dscp", c.DSCP != nil, func() { kept.DSCP = c.DSCP })
	take("group", c.Group != nil, func() { kept.Group = c.Group })
	if c.Ingress != nil {
		ingress, more := n.acceptedFields(*c.Ingress, prefix+"ingress.")
		if left = append(left, more...); !ingress.Empty() {
			kept.Ingress = &ingress
		}
	}
	return kept, left
}
