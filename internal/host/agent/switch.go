// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"

	"weir/internal/host/agent/decide"
	"weir/internal/host/sdn/switchport"
)

// watchPorts carries what a switch says of its ports to take, until ctx ends.
func watchPorts(ctx context.Context, log *slog.Logger, watch func(context.Context, func(switchport.Report)) error, take func(switchport.Report)) {
	if err := watch(ctx, take); ctx.Err() == nil {
		log.Error("the switch's ports are followed no longer; start the agent again", "err", err)
	}
}

// takePorts makes the ports of a switch links, and gives back those that are ports
// of Weir's no longer.
func (a *Agent) takePorts(ctx context.Context, r switchport.Report) {
	next := a.decided.World.Clone()
	next.Ports = r.Ports
	for _, p := range r.Ports {
		if next.PortAt(p.Device) == nil {
			a.log.Warn("port of the switch stays as the configuration has it; remove it from links there to have the switch's own",
				"link", p.Device, "bridge", p.Bridge)
		}
	}
	a.links = a.links.relink(ctx, next.Links(), a.newLink, a.record)
	a.commit(ctx, decide.Decide(next), decide.Reasons{General: "the switch's database says so"})
	a.devices.tidy(ctx, next.Links())
}
