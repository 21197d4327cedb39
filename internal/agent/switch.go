// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"slices"

	"weir/internal/config"
	"weir/internal/sdn/switchport"
)

// watchPorts carries what a switch says of its ports into the loop.
func (a *Agent) watchPorts(ctx context.Context) {
	if a.opts.Ports == nil {
		return
	}
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
	next := a.world.clone()
	next.ports = r.Ports
	for _, p := range r.Ports {
		if next.portAt(p.Device) == nil {
			a.log.Warn("port of the switch stays as the configuration has it; remove it from links there to have the switch's own",
				"link", p.Device, "bridge", p.Bridge)
		}
	}
	a.relink(ctx, next.links())
	a.commit(ctx, rule(next, a.attached), reasons{general: "the switch's database says so"})
}

// links are the configuration's, and the ports of a switch that it does not name.
func (w world) links() []config.Link {
	var links []config.Link
	for _, l := range w.config.Links {
		links = append(links, l.Ends()...)
	}
	for _, p := range w.ports {
		if w.portAt(p.Device) == nil {
			continue
		}
		link := config.DefaultLink(p.Device, p.Bandwidth)
		// Its QoS row says that the switch leaves the qdisc to Weir. What is there
		// may be the switch's own, which it does not remove by itself.
		link.Force = true
		links = append(links, link)
	}
	return links
}

// portAt is the port that makes a device a link; nil if the configuration does, or
// nothing.
func (w world) portAt(device string) *switchport.Port {
	if slices.ContainsFunc(w.config.Links, func(l config.Link) bool { return l.Device == device }) {
		return nil
	}
	i := slices.IndexFunc(w.ports, func(p switchport.Port) bool { return p.Device == device })
	if i < 0 {
		return nil
	}
	return &w.ports[i]
}
