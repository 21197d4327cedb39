// SPDX-License-Identifier: Apache-2.0

// Package ovsdb reads and changes what Open vSwitch's database (RFC 7047, schema
// in ovs-vswitchd.conf.db(5)) says about the queues of a switch's ports.
//
//	c, err := ovsdb.Dial(ctx, "unix:/run/openvswitch/db.sock")
//	snapshot, err := c.Snapshot()
//	port, err := snapshot.Port("s1", "up0")
//	err = c.Replace(ctx, []ovsdb.PortQoS{{Port: port, Want: &ovsdb.QoS{Type: ovsdb.Noop}}})
//
// A connection keeps a copy of the five tables that matter, each transaction of the database as a
// whole, and tells when it has changed. What the database sends is bounded (frame.go).
// Replace is one transaction: it makes all changes or none, and none if another client
// has changed one of the ports meanwhile.
//
// Weir's own rows carry a mark in external_ids. This package removes no other rows,
// whatever its caller asks for.
//
// A connection that is lost stays lost; a caller that needs another dials again.
package ovsdb
