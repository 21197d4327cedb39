// SPDX-License-Identifier: Apache-2.0

// Package workload has the words by which workloads are known wherever they are found,
// kept and shown: kinds, states, those of their sources, and the keys that follow from a kind and a
// name.
//
//	workload.Key(workload.KindDocker, "web")    // docker:web
//	workload.Key(workload.KindDevice, "veth1")  // dev:veth1
//
// A key stays the same for as long as its owner considers the workload the same. The
// host's key is plan.HostKey.
package workload

// The kinds, as in api.Workload.Kind.
const (
	KindDocker = "docker" // a container, of Docker or of Podman
	KindNetns  = "netns"
	KindDevice = "device"
	KindVM     = "vm"
	KindUnit   = "unit"
	KindCgroup = "cgroup"
	KindPod    = "pod"  // of Kubernetes, named NAMESPACE/POD
	KindHost   = "host" // what carries no mark
	KindOwn    = "own"  // a part of Weir
)

// KindGroup is the kind of a group of workloads, where groups are handled like them. No
// api.Workload has it.
const KindGroup = "group"

// The states of a workload, as in api.Workload.State. A group is never waiting nor
// unsteered.
const (
	StateActive    = "active"
	StateWaiting   = "waiting"   // its network is not up
	StateUnsteered = "unsteered" // the note says why
	StateRefused   = "refused"   // a part of what was asked for is not in force
	StateNotHeld   = "not held"  // a backend lacks a part of the policy, or a link is not steered
)

// SourceState says whether a source of workloads can see them, as in api.Source.State.
type SourceState string

// The states of a source.
const (
	SourceOK          SourceState = "ok"
	SourceUnavailable SourceState = "unavailable" // the note says why
	SourceNone        SourceState = "none"        // what it would ask is not on this host
	SourceOff         SourceState = "off"         // the configuration does not want it
)

// Key returns the key of what has this kind and name.
func Key(kind, name string) string {
	if kind == KindDevice {
		kind = "dev"
	}
	return kind + ":" + name
}
