// SPDX-License-Identifier: Apache-2.0

// Package switchport translates between rows of Open vSwitch's database and links of
// Weir: a port whose QoS row is of type linux-noop and names a discipline is a link that
// Weir schedules, and its Queue rows are the queues. So a switch is configured from one
// place, by weir sdn or by anything else that writes rows.
//
//	QoS    type                        linux-noop: Open vSwitch leaves the qdisc alone
//	       other_config:weir-discipline  llq
//	       other_config:max-rate         8000000, bits per second
//	       other_config:weir-aqm         5ms/100ms, off; none: the discipline's default
//	       queues                        {0: Queue, 1: Queue, ...}: what set_queue names
//	Queue  other_config:min-rate         1000000: the queue's min; of llq's first, its rate
//	       other_config:priority         order of the queues, lowest first; then by number
//	       other_config:weir-name        voice; none: q0, q1, ...
//	       other_config:weir-limit-packets
//	       dscp                          written by Open vSwitch itself
//
// A packet is in queue N if its skb->priority says so, which is where set_queue:N leaves
// it. A packet without a queue goes to the last one.
//
// Encode writes such rows, Decode reads them, and Watch follows them: it keeps a
// connection to the database, tells of every change, and after a lost connection
// reports the same ports as before until it is back.
package switchport
