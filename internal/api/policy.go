// SPDX-License-Identifier: Apache-2.0

package api

import (
	"encoding/json"

	"weir/internal/policy"
)

// PolicyOf is a policy as it crosses the socket.
func PolicyOf(p policy.Policy) Policy {
	q := Policy{
		Weight: p.Weight, Min: p.Min.Compact(), Max: p.Max.Compact(), Reserve: p.Reserve.Compact(),
		LimitPackets: p.LimitPackets, LimitBytes: p.LimitBytes,
		Discipline: string(p.Discipline.OrDefault()), Queues: QueuesOf(p.Queues),
		AQM: p.AQM.Compact(), DSCP: marking(p.DSCP), Group: p.Group,
	}
	if p.Ingress != nil {
		q.Ingress = new(PolicyOf(*p.Ingress))
	}
	return q
}

// In is the policy in one direction, "egress" or "ingress". Nobody has to say
// anything of ingress: there is the default then.
func (p Policy) In(direction string) Policy {
	switch {
	case direction != string(policy.Ingress):
		return p
	case p.Ingress == nil:
		return PolicyOf(policy.Default())
	}
	return *p.Ingress
}

// LinkName is what tells the two directions of a device from each other in a line:
// "eth0", "eth0 ingress".
func LinkName(device, direction string) string {
	if direction == string(policy.Ingress) {
		return device + " " + direction
	}
	return device
}

// QueuesOf are queues as they cross the socket; nil if there are none.
func QueuesOf(queues []policy.Queue) []Queue {
	var list []Queue
	for _, q := range queues {
		list = append(list, Queue{
			Name: q.Name, Rate: q.Rate.Compact(), Min: q.Min.Compact(), Reserve: q.Reserve.Compact(),
			Match: matchesOf(q.Match), DSCP: marking(q.DSCP), LimitPackets: q.LimitPackets,
			Priority: q.Priority,
		})
	}
	return list
}

func marking(dscp *uint8) string {
	if dscp == nil {
		return ""
	}
	return policy.DSCPName(*dscp)
}

func matchesOf(matches []policy.Match) []Match {
	var list []Match
	for _, m := range matches {
		var fields Match
		text, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(text, &fields)
		}
		if err != nil {
			panic("match " + m.String() + ": " + err.Error()) // it writes what it reads
		}
		list = append(list, fields)
	}
	return list
}

// Empty reports whether nothing is asked for.
func (c PolicyChange) Empty() bool {
	if c.Ingress != nil && c.Ingress.Empty() {
		c.Ingress = nil
	}
	c.AcceptGaps = false // says nothing of the policy
	return c == PolicyChange{}
}
