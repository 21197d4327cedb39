// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/host/dataplane/device"
)

// Seen is a value that Look read, or the reason why it could not.
type Seen[T any] struct {
	Value T
	Err   error
}

// Host is the state of a host as Look read it. The zero value is a host of which nothing
// is known.
type Host struct {
	Kernel   string                  // release, such as "6.18.5+deb13-amd64"
	Options  Seen[map[string]string] // of the kernel: "CONFIG_NET_SCH_BPF" to "y" or "m"
	BTF      error                   // why the kernel's type information cannot be read
	CPUHz    Seen[uint64]            // the highest clock of a CPU
	JIT      Seen[int]               // net.core.bpf_jit_enable
	BPF      error                   // why the BPF backend cannot run here
	Fallback Seen[string]            // the queue of one workload on the HTB backend, best first

	File   string              // of the configuration
	Config Seen[config.Config] // the defaults if there is no file
	// Refused are the files that others than root may change.
	Refused []config.UnsafeFile
	Links   []Link // of the configuration, or the device of the default route

	Marks Marks

	Engines []EngineSocket
	Dockerd bool         // a dockerd is installed
	CRIU    Seen[string] // its version, such as "4.2.1"
	Clock   Seen[KernelClock]
	Cgroups string // why workloads of the host's network cannot be marked, "" = they can
	Limits  Limits
	Disks   []Disk // in which the agent writes
	Agent   Seen[api.Status]
	Socket  string // where the agent was looked for
}

// Link is a device that Weir steers or would steer.
type Link struct {
	Name      string
	Missing   string       // why it cannot be used, "" = it is there
	Down      string       // why it sends nothing though it is there, "" = it does
	Capacity  uint64       // bits per second that weir.yaml gives it, 0 = none
	Force     bool         // weir.yaml: replace a foreign qdisc
	Asked     bool         // weir.yaml or the command line names it
	Root      Seen[string] // root qdisc as tc prints it
	RootKind  RootKind
	Setters   []string      // settings of managers of networks that have them set a root qdisc, each with its program and file
	Below     []string      // devices that carry what it sends and have a root qdisc of another program, each with that
	Former    device.Former // what is there without Weir
	TxQueues  int
	SpeedMbps int    // of the device, 0 = it does not say
	GSO       uint32 // bytes of the largest packet that is cut after the qdisc
	SplitOver uint32 // bytes of the longest packet that Weir does not split for this capacity; 0 = it splits none
	Whole     bool   // the devices that split packets are not there
}

// RootKind tells who set a root qdisc: the kernel, Weir or another program.
type RootKind int

// The owners of a root qdisc.
const (
	RootDefault RootKind = iota // the kernel's own choice
	RootOurs
	RootForeign
)

// Marks are the users of skb->mark beside Weir.
type Marks struct {
	Users    []MarkUser
	Unread   []error  // why a part could not be read
	Products []string // whose devices are there: calico, cilium, kube-proxy
	Losing   []Losing // in which packets lose their class

	Flowtables []string // of nftables, each with its devices
}

// Losing is a device in which packets lose what they carry: of a kind that does so, or with a
// filter or a tcx program of another owner that does.
type Losing struct{ Name, Kind, Filter, Program string }

// MarkUser is one rule that writes or compares bits of the mark.
type MarkUser struct {
	Owner string // calico, cilium, kube-proxy or "" for any other program
	Rule  string // as its tool prints it
	Bits  uint32
	Reads bool   // it compares the bits; otherwise it writes them
	Value uint32 // of these, the ones that have to be set for it; 0 = none, or it cannot be told
}

// EngineSocket is a container engine's socket that is there.
type EngineSocket struct {
	Name    string // docker, podman, containerd, cri-o
	Socket  string
	Version Seen[string] // "" = it was not asked
}

// KernelClock is the state of the kernel's clock, as adjtimex returns it.
type KernelClock struct {
	Synchronised bool
	MaxErrorUsec int64 // bound of the error in microseconds; it grows by 500 a second without a server
}

// Limits of the calling process and of the kernel.
type Limits struct {
	Memlock         uint64 // bytes, hard; ^0 = none
	OpenFiles       uint64 // hard
	UnprivilegedBPF Seen[int]
}
