// SPDX-License-Identifier: Apache-2.0

// Package paths finds out by which devices the traffic of workloads goes, where Weir has to take
// it, and what of it does not meet a link.
//
// A workload is known by its ports, the devices of the host that its packets come in by. Most
// packets go from a port to the link and back, by a bridge or by routing. Some do not:
//
//	what the host looks like                   what follows
//	vmbr0 is the link, eth0 and tap1 its ports  not steered: frames from port to port pass eth0, not vmbr0
//	tap1 - fwbr1 - pair - vmbr0 - eth0          taken at the pair's end in vmbr0, where both directions pass
//	two taps in fwbr1                           ingress not steered: it comes by the pair, not by the link
//	br1 is a workload, its port veth1 another   br1 is taken at its other ports: veth1's packets count once
//	eth0 of a container leads to an overlay     not steered: no device of the host carries its packets
//	XDP at tap1                                 egress not steered, as far as it redirects what comes by tap1
//	packets get in without passing the port     ingress not steered: an eBPF data plane carries them
//
// Example: links eth0 with both directions, workload vm with tap1 as in the first line:
//
//	Of(host, links, workloads).Unsteered["vm:vm"][0]
//	    by link vmbr0: "it is a port of the bridge vmbr0 ..."; "name eth0 as the link ..."
//
// What it does not do: read the kernel (package look does), or follow routes: what a workload
// sends by another way out than the link is no traffic of the link.
package paths
