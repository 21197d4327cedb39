// SPDX-License-Identifier: Apache-2.0

// Package discover finds the workloads of a host and the devices on the host's
// side that their packets come in by.
//
// A Source watches one kind of workload (Docker's containers, named network namespaces,
// devices given by name, the taps of VMs, systemd's units and other cgroups). It calls
// back with the complete list of the workloads it sees whenever that list changes; the
// agent compares lists. With complete lists instead of events, a restart of an engine or
// a missed message loses nothing.
//
// A device is assigned by namespaces, not by names: a container's devices are
// the veths on the host whose other end is in the network namespace of the
// container's process. Links, which all sources share, follows the host's
// devices and answers that without entering a namespace.
//
// A workload without a device of its own on the host (a unit, a container with the host's
// network or with a macvlan device) is known by its cgroup of version 2 instead, which
// every process in it belongs to and which the kernel can mark packets by
// (docs/decisions/0013-cgroups.md).
//
// # How a container is found before its first packet
//
// Docker says "start" when the container's program runs already, and until then it does
// not answer an inspect: too late, since the program may have sent. So Docker (the
// Source) goes by the steps before it:
//
//  1. the engine's event "network connect" announces the container's id, while
//     both ends of its veth are still on the host; its name and labels are asked
//     for with a list request, which never waits;
//  2. the kernel says that the veth's other end has moved to another namespace
//     and has come up (RTM_NEWLINK); nothing can have been sent before;
//  3. the process in that namespace is looked up in /proc. Its cgroup carries
//     the container's id. The program itself has not been started yet.
//
// The start event and an inspect confirm it later, or take it back. Example,
// Docker 20.10 on two cores, 20 starts: the network is up at 0 ms, the device is
// reported at 3 ms (20 ms at worst), the first packet leaves at 35 ms (21 ms at
// the earliest), Docker says "start" at 40 ms. TestRealLatency measures it. A
// container that starts in the very moment in which the source connects to the
// engine is found by its start event.
//
// # Example
//
//	links, err := discover.NewLinks(log, "") // the devices of this namespace
//	if err != nil { ... }
//	defer links.Close()
//	go links.Run(ctx)
//	source, err := discover.NewDocker(log, links, "")
//	if err != nil { ... }
//	err = source.Run(ctx, func(list []discover.Workload) { ... })
//
// What it does not do: decide a policy, or touch a qdisc.
package discover

import "context"

// Workload is a sender of packets, which has devices of its own or processes in cgroups
// of its own.
type Workload struct {
	// Key identifies the workload for as long as its source considers it the same:
	// "docker:<name>" survives a restart of the container (workload.Key).
	Key string
	// ID is the engine's identity (a container's full id), "" if there is none.
	ID string
	// Name is the name that users know: the container's, the namespace's, the device's.
	Name string
	// Kind is one of the kinds of package workload, except those of the host and of
	// groups.
	Kind string
	// Labels as the engine has them; those of Weir begin with "weir.".
	Labels map[string]string
	// Oversize is how many bytes labels have that are too long to be read; Labels has their
	// beginning.
	Oversize map[string]int
	// ImageLabels are the labels that matter to Weir and stand in the container's image
	// with the same value: the engine gives them to the container by itself.
	ImageLabels map[string]string
	// Group is the larger thing that the workload belongs to, such as the VM of an
	// interface; "" if there is none. A policy may have a group of that name.
	Group string
	// Devices on the host's side. Empty while the network is not up.
	Devices []Device
	// Cgroups are the folders of cgroups of version 2 whose processes are the
	// workload, beside what comes in by Devices.
	Cgroups []string
	// Sockets are the folders of cgroups of version 2 of a workload that sends by Devices: what
	// their sockets send by another way is the workload's, too.
	Sockets []string
	// Note is the reason why a workload cannot be steered ("uses the host's network"), ""
	// if it can.
	Note string
	// Awaits is what a workload without devices and cgroups waits for ("device tap1 is not on
	// this host"), "" if its source does not know.
	Awaits string
	// Unseen says that the workload is there and sends by devices that lead to none of this
	// host.
	Unseen bool
	// Ended says that the source does not have the workload any more, but a device of it is
	// still there (package hold).
	Ended bool
}

// Device is a network device on the host.
type Device struct {
	Name    string
	Ifindex int
	// PeerNetns is a path by which the other end's network namespace can be
	// entered (/proc/PID/ns/net, /run/netns/NAME), "" if unknown; PeerIfindex is
	// the other end's index there.
	PeerNetns   string
	PeerIfindex int
	// Held says that the source does not find the device any more: its other end has left the
	// workload's namespace (package hold).
	Held bool
}

// Source watches one kind of workload.
type Source interface {
	// Name for logs, e.g. "docker".
	Name() string
	// Run calls report with the complete present list at once and after each
	// change, from one goroutine, until ctx ends. It reconnects by itself.
	Run(ctx context.Context, report func([]Workload)) error
}
