// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/rootlock"
)

func configuration(h Host) []Finding {
	switch err := h.Config.Err; {
	case errors.Is(err, fs.ErrPermission):
		return unknown(h.File, err)
	case err != nil:
		first, rest, more := strings.Cut(err.Error(), "\n")
		if more {
			first += fmt.Sprintf(" (and %d more)", 1+strings.Count(rest, "\n"))
		}
		return fails(first, "correct it; weir config check "+h.File+" lists all mistakes")
	case h.Config.Value.Path == "":
		return ok("there is no " + h.File + "; weir agent --link eth0 --egress 100mbit needs none")
	}
	all := ok(h.File + " has no mistake")
	for _, refused := range h.Refused {
		all = append(all, fails(refused.Fault(), refused.Why.Remedy())...)
	}
	return all
}

func links(h Host) []Finding {
	if len(h.Links) == 0 {
		return warning("no link is configured and no route leads out", "name one by --link DEV, or under links: in "+h.File)
	}
	var all []Finding
	for _, l := range h.Links {
		for _, f := range l.examine(h.backend(), h.CPUHz) {
			f.Seen = l.Name + ": " + strings.TrimPrefix(f.Seen, l.Name+": ")
			all = append(all, f)
		}
	}
	return all
}

// backend returns the kind of backend that an agent takes on this host.
func (h Host) backend() string {
	if h.Config.Value.Backend == plan.BackendTC || h.BPF != nil {
		return plan.BackendTC
	}
	return plan.BackendBPF
}

// examine judges one link with a backend: its qdisc, its speed beside the clock of a CPU, its
// offloads.
func (l Link) examine(backend string, clock Seen[uint64]) []Finding {
	switch {
	case l.Missing != "" && l.Asked:
		return fails(l.Missing, "correct its name, or wait: the agent takes it over as soon as it is there")
	case l.Missing != "":
		return warning(l.Missing, "name the uplink by --link DEV")
	}
	all := l.rootQdisc()
	for _, setter := range l.Setters {
		all = append(all, warning("a manager of networks sets a root qdisc there whenever it configures the device, in place of Weir's, which the agent sets again within a second or so: "+setter,
			"take the qdisc out of that setting, or the link out of weir.yaml")...)
	}
	for _, carrier := range l.Below {
		name, _, _ := strings.Cut(carrier, ":")
		all = append(all, warning("packets wait and are dropped a second time, behind Weir's qdisc, where another program has set one: "+carrier,
			"tc qdisc del dev "+name+" root, and take it out of what sets it")...)
	}
	if l.Down != "" {
		judge := warning // as the agent does of a link that it steers
		if l.Asked {
			judge = fails
		}
		all = append(all, judge(l.Down, "ip link set "+l.Name+" up; then look at the cable, and at the other end")...)
	}
	all = append(all, l.speed(backend, clock)...)
	return append(all, l.offload()...)
}

func (l Link) rootQdisc() []Finding {
	queues := ""
	if l.TxQueues > 1 {
		queues = fmt.Sprintf("; its %d transmit queues get one root qdisc in their place", l.TxQueues)
	}
	switch {
	case l.Root.Err != nil:
		return unknown("root qdisc", l.Root.Err)
	case l.RootKind == RootOurs:
		return ok("root qdisc " + l.Root.Value + ", Weir's own")
	case l.RootKind == RootForeign && l.Force:
		return ok("root qdisc " + l.Root.Value + " was set by another program; force: true replaces it" + queues)
	case l.RootKind == RootForeign && l.Asked:
		return fails("root qdisc "+l.Root.Value+" was set by another program, so the agent does not take the link",
			"find out which; tc qdisc del dev "+l.Name+" root takes it away, force: true at the link replaces it")
	case l.RootKind == RootForeign:
		return warning("root qdisc "+l.Root.Value+" was set by another program", "find out which; an agent replaces it with --force only")
	}
	return ok("root qdisc " + l.Root.Value + ", the kernel's default" + queues)
}

// speed compares the capacity with the device's speed and with what one root qdisc carries
// on a CPU of this host, whose clock is given in Hz.
func (l Link) speed(backend string, clock Seen[uint64]) []Finding {
	device := uint64(l.SpeedMbps) * 1e6
	capacity := l.Capacity
	switch {
	case device != 0 && capacity > device:
		return warning(fmt.Sprintf("weir.yaml gives it %s, the device has %s: packets wait behind the qdisc, where no scheduler divides the link", policy.Rate(capacity), policy.Rate(device)),
			fmt.Sprintf("write egress: %s or less", policy.Rate(device*95/100).Compact()))
	case capacity == 0:
		capacity = device
	}
	if capacity == 0 {
		return ok("the device does not say its speed; egress in weir.yaml says what it can send")
	}
	every := policy.FullFrame * 8 / float64(capacity) // seconds
	text := fmt.Sprintf("%s in full frames is a packet every %.3g µs", policy.Rate(capacity), every*1e6)
	if clock.Err != nil {
		return ok(fmt.Sprintf("%s; how many cycles a CPU of this host has in that time is not known: %v; %s", text, clock.Err, rootlock.Counted))
	}
	cycles := every * float64(clock.Value)
	seen, remedy := rootlock.Of(backend, clock.Value).Warning(rootlock.Link{Device: l.Name, Capacity: policy.Rate(capacity),
		Root: l.Former.String(), Queues: l.Former.Queues, Steered: l.RootKind == RootOurs})
	if seen != "" {
		return warning(seen+"; "+rootlock.Counted.String(), remedy)
	}
	return ok(fmt.Sprintf("%s, in which a CPU of this host has %.0f cycles; %s", text, cycles, rootlock.Counted))
}

// offload says how long the largest packet holds the link.
func (l Link) offload() []Finding {
	if l.Capacity == 0 || l.GSO == 0 {
		return nil
	}
	ms := func(bytes uint32) float64 { return float64(bytes) * 8e3 / float64(l.Capacity) }
	text := fmt.Sprintf("packets of up to %d bytes (segmentation offload), %.3g ms of the link", l.GSO, ms(l.GSO))
	switch {
	case l.SplitOver == 0 || l.GSO <= l.SplitOver:
		return ok(text)
	case l.Whole && l.RootKind == RootOurs:
		return warning(text+", stay whole: weir-gso, the device that splits them, is not there", "weir status says why, or mends it within seconds; the kernel has to have the modules veth and macvlan")
	}
	return ok(fmt.Sprintf("%s; Weir splits what is longer than %d bytes, %.3g ms", text, l.SplitOver, ms(l.SplitOver)))
}
