// SPDX-License-Identifier: Apache-2.0

// Package discover finds the workloads of a host and the devices on the host's
// side that their packets come in by.
//
// A Source watches one kind of workload (Docker's containers, named network
// namespaces, devices given by name) and calls back with the complete list of
// what it sees whenever that changes; whoever listens compares lists. Complete
// lists rather than events mean that nothing is lost when an engine restarts or
// a message is missed.
//
// What it does not do: decide a policy, or touch a qdisc.
package discover

import "context"

// Workload is something that sends packets through devices of its own.
type Workload struct {
	// Key identifies the workload for as long as its owner considers it the
	// same: "docker:<name>" survives a restart of the container, "netns:<name>",
	// "dev:<name>".
	Key string
	// ID is the engine's identity (a container's full id), "" if there is none.
	ID string
	// Name is what people call it: the container's name, the namespace's, the device's.
	Name string
	// Kind is "docker", "netns" or "device".
	Kind string
	// Labels as the engine has them; those of Weir begin with "weir.".
	Labels map[string]string
	// Devices on the host's side. Empty while the network is not up.
	Devices []Device
	// Note says why a workload cannot be steered ("uses the host's network"), "" if it can.
	Note string
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
}

// Source watches one kind of workload.
type Source interface {
	// Name for logs, e.g. "docker".
	Name() string
	// Run calls report with the complete present list at once and after each
	// change, from one goroutine, until ctx ends. It reconnects by itself.
	Run(ctx context.Context, report func([]Workload)) error
}
