// SPDX-License-Identifier: Apache-2.0

// Package classify says which queue of a workload a packet belongs to.
//
// A Match is what a person writes of packets; each queue has some. Compile writes the matches
// of all queues out as Rules, which are tried in order; Rules.Classify compares a Packet, as
// DecodeEthernet or DecodeIP read it, with them. Example: of the queues
//
//	voice: [{udp: 5001}, {dscp: ef}]
//	video: [{tcp: [80, 8000-8099]}]
//	rest:  without a match
//
// four rules are made (video has one for port 80 and one for the range). A UDP packet from port
// 5001 goes to voice, a TCP packet to port 8080 to video, and what fits no rule to rest.
//
// The programs in bpf/marking/rules.h compare packets in the kernel; this package is the reference
// that they are tested against. It knows no workloads, rates or disciplines: what the queues do
// with their packets is package policy's. Mistakes in what a person wrote are *invalid.Error.
package classify
