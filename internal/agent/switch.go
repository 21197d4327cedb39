// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"

	"weir/internal/agent/decide"
	"weir/internal/sdn/switchport"
)

// watchPorts carries what a switch says of its ports into the loop.
func (a *Agent) watchPorts(ctx context.Context) {
	err := a.opts.Ports(ctx, func(r switchport.Report) {
		_ = a.tell(ctx, func() { a.takePorts(ctx, r) }) // fails only when the agent ends
	})
	if ctx.Err() == nil {
		a.log.Error("the switch's ports are followed no longer; start the agent again", "err", err)
	}
}

// takePorts makes the ports of a switch links, and gives back those that are ports
// of Weir's no longer.
func (a *Agent) takePorts(ctx context.Context, r switchport.Report) {
	for _, err := range r.Wrong {
		a.log.Warn("port of the switch is no link", "err", err)
	}
	next := a.decided.World.Clone()
	next.Ports = r.Ports
	for _, p := range r.Ports {
		if next.PortAt(p.Device) == nil {
			a.log.Warn("port of the switch stays as the configuration has it; remove it from links there to have the switch's own",
				"link", p.Device, "bridge", p.Bridge)
		}
	}
	a.relink(ctx, next.Links())
	a.commit(ctx, decide.Decide(next), decide.Reasons{General: "the switch's database says so"})
}
