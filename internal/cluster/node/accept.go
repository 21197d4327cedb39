// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// accepted returns what of a policy that came with a container this node takes. The error
// names the fields that it leaves out.
func (n *Node) accepted(c api.PolicyChange) (api.PolicyChange, error) {
	// A queue is named in requests of users only; it would get past the limits on queues.
	c.ReserveQueue = ""
	if c.Ingress != nil {
		in := *c.Ingress
		in.ReserveQueue, c.Ingress = "", &in
	}
	var left []string
	for _, name := range c.Given() {
		if n.opts.AcceptPolicy != nil && !slices.Contains(n.opts.AcceptPolicy, strings.TrimPrefix(name, "ingress.")) {
			left = append(left, name)
			c.Change = c.Without(name)
		}
	}
	c.Change = n.withoutMarks(c.Change)
	if c.Ingress != nil {
		c.Ingress = new(n.withoutMarks(*c.Ingress))
	}
	if left == nil {
		return c, nil
	}
	return c, fmt.Errorf("%s does not take %s with containers of others (cluster.accept.policy)", n.opts.Name, strings.Join(left, ", "))
}

// withoutMarks returns a change whose queues say no DSCP and reserve nothing where this node does
// not take that.
func (n *Node) withoutMarks(c policy.Change) policy.Change {
	if n.opts.AcceptPolicy == nil || !c.Gives("queues") {
		return c
	}
	queues := slices.Clone(c.To().Queues)
	for i := range queues {
		if !slices.Contains(n.opts.AcceptPolicy, "dscp") {
			queues[i].DSCP = nil
		}
		if !slices.Contains(n.opts.AcceptPolicy, "reserve") {
			queues[i].Reserve = policy.Amount{}
		}
	}
	c.Set("queues", func(p *policy.Policy) { p.Queues = queues })
	return c
}

// acceptFrom returns the nodes from which containers are taken here, for the manager; nil = all.
func (n *Node) acceptFrom() *[]string {
	switch from := n.opts.AcceptFrom; {
	case n.opts.Engine == nil:
		return nil
	case from != nil:
		return &from
	case n.opts.Engine.Kind() == wire.EnginePodman:
		return &[]string{}
	}
	return nil
}
