// SPDX-License-Identifier: Apache-2.0

// Package openflow speaks as much OpenFlow 1.3 to an Open vSwitch bridge as it
// takes to lay down flows, read them back and count what they saw.
//
//	c, err := openflow.Dial(ctx, "unix:/run/openvswitch/s1.mgmt")
//	flows, err := c.Flows(ctx, openflow.All)
//	err = c.Commit(ctx, []openflow.FlowMod{{Command: openflow.Add, Flow: openflow.Flow{
//		Priority: 100,
//		Match:    openflow.Match{openflow.InPort(1), openflow.EthType(0x0800), openflow.IPProto(17)},
//		Actions:  []openflow.Action{openflow.SetQueue(3), openflow.Output(9)},
//	}}})
//
// Commit is all or nothing: the changes travel in a bundle (ONF extension 230 to
// OpenFlow 1.3), which the switch puts into force at once or refuses whole.
//
// A connection to a bridge's own management socket is no controller: the switch
// neither sends it packets nor drops flows when it ends. Other flows on the
// bridge are seen and left alone.
//
// Only what Weir needs of a flow is decoded: table, priority, cookie, match,
// counters, and its instructions as bytes. Fields and actions of other
// controllers that this package does not know are kept as they are and shown in
// hexadecimal.
//
// The specification is the OpenFlow Switch Specification 1.3.5 (numbers in
// parentheses are its sections); register fields and resubmit are Open vSwitch's
// own (ovs-fields(7), ovs-actions(7)).
package openflow
