// SPDX-License-Identifier: Apache-2.0

// Package doctor finds the parts of a host that are in Weir's way, before they matter:
// the kernel's options, who else uses the packet mark, qdiscs and devices that do not fit
// the configuration, engines, clock and limits.
//
//	for _, f := range doctor.Examine(doctor.Look(ctx, doctor.Options{})) {
//		fmt.Println(f.Level, f.Check, f.Seen, f.Remedy)
//	}
//
// prints lines such as
//
//	warning BPF qdisc CONFIG_NET_SCH_BPF is not set take a kernel that has it, ...
//
// It has two halves. Look reads the host and judges nothing; in place of a part that it
// cannot read it keeps the reason. Examine judges a Host and reads nothing, so each rule
// is tested with a table of hosts that need not exist.
//
// What it does not do: change the host, or send a packet. The probes of the backends
// happen in a network namespace of their own, which ends with them; the kernel may load
// the modules that they ask for.
package doctor
