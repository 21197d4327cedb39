// SPDX-License-Identifier: Apache-2.0

// Package sdn lays down disciplines, queues and flow rules on one bridge of Open
// vSwitch, from one file (config.Switch).
//
//	bridge: s1
//	ports:
//	  up0:
//	    bandwidth: 8mbit
//	    discipline: llq
//	    queues: {voice: {rate: 1mbit}, rest: {min: 1mbit}}
//	flows:
//	  - {match: {preset: voip}, queue: voice}
//
// becomes a QoS row of type linux-noop at the port up0, with two Queue rows, and
// some 30 flows that put telephony, IPv4 and IPv6, into queue 0. The rows tell
// Weir's agent on the switch what to schedule (package switchport); the flows
// need nothing but Open vSwitch.
//
// A flow of Weir's says which queue, and leaves it to the switch's other flows
// where the packet goes: it sets the queue, notes in register 15 that the packet
// has been seen, and has the table look again.
//
//	priority=60000,reg15=0,udp,tp_dst=5001 actions=set_queue:0,set_field:1->reg15,resubmit(,0)
//
// With forward: true it sends the packet out of the port itself.
//
// The package touches only rows and flows of Weir: rows with external_ids:weir, flows
// whose cookie begins with 57656972 ("Weir"). Apply refuses a port that has another
// program's QoS row, unless force is given; it then keeps that row, and Delete puts it
// back.
//
// Pure functions (plan) decide the changes from the wanted and the present state, so a
// second Apply changes nothing. The rows change in one transaction, the flows in one
// bundle; if the switch refuses the flows, Apply puts the rows back.
//
// What it does not do: steer where packets go, meters, several tables, more than
// one bridge in a file.
package sdn
