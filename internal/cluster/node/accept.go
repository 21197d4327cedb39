// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/cluster/wire"
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
	if left == nil {
		return c, nil
	}
	return c, fmt.Errorf("%s does not take %s with containers of others (cluster.accept.policy)", n.opts.Name, strings.Join(left, ", "))
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
