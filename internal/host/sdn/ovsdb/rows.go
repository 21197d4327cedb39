// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/core/closest"
)

// Noop is the type of QoS row that makes Open vSwitch leave a device's qdisc alone,
// whichever program put it there.
const Noop = "linux-noop"

// Owner is the key in external_ids that marks rows as Weir's; its value is
// BRIDGE/PORT.
const Owner = "weir"

// Former is the key in external_ids of Weir's QoS row that names the row which
// the port had before.
const Former = "weir-former"

// Queue is a row of the table Queue.
type Queue struct {
	UUID        string
	DSCP        *int // the switch writes it into the queue's packets
	OtherConfig map[string]string
	ExternalIDs map[string]string
}

// QoS is a row of the table QoS with its queues.
type QoS struct {
	UUID        string
	Type        string
	OtherConfig map[string]string
	ExternalIDs map[string]string
	Queues      map[int]Queue // by the number that set_queue names
}

// Own reports whether the row is Weir's.
func (q *QoS) Own() bool { return q != nil && q.ExternalIDs[Owner] != "" }

// Same reports whether two rows say the same; their UUIDs do not count.
func (q *QoS) Same(r *QoS) bool {
	if q == nil || r == nil {
		return q == r
	}
	return q.Type == r.Type && maps.Equal(q.OtherConfig, r.OtherConfig) && maps.Equal(q.ExternalIDs, r.ExternalIDs) &&
		maps.EqualFunc(q.Queues, r.Queues, Queue.same)
}

func (q Queue) same(r Queue) bool {
	return (q.DSCP == nil) == (r.DSCP == nil) && (q.DSCP == nil || *q.DSCP == *r.DSCP) &&
		maps.Equal(q.OtherConfig, r.OtherConfig) && maps.Equal(q.ExternalIDs, r.ExternalIDs)
}

// Interface is one network device of a port; a port that is no bond has one.
type Interface struct {
	Name string
	Type string // "" = a device of the host's, "internal", "patch", "vxlan", ...
}

// Port is a row of the table Port.
type Port struct {
	UUID       string
	Bridge     string // its bridge's name
	Name       string
	Interfaces []Interface
	QoS        *QoS // nil = none
}

// Device returns the network device that a port sends through. The error says why there
// is none that could have a qdisc.
func (p Port) Device() (string, error) {
	if len(p.Interfaces) != 1 {
		return "", fmt.Errorf("port %s of bridge %s is a bond of %d devices; give each device a discipline by weir.yaml instead",
			p.Name, p.Bridge, len(p.Interfaces))
	}
	switch i := p.Interfaces[0]; i.Type {
	case "", "system", "internal", "tap":
		return i.Name, nil
	default:
		return "", fmt.Errorf("port %s of bridge %s is of type %s, which has no device of its own to schedule; "+
			"name the port that leads to the wire", p.Name, p.Bridge, i.Type)
	}
}

// Bridge is a row of the table Bridge.
type Bridge struct {
	Name  string
	Ports []Port // by name
}

// Content is the content of the database at one moment.
type Content struct {
	Bridges []Bridge        // by name
	QoS     map[string]*QoS // all rows, by UUID
	// Orphans are Weir's QoS rows that no port refers to: their port is gone.
	Orphans []QoS
}

// Bridge returns the bridge with a name. The error names the bridges that exist.
func (s Content) Bridge(name string) (Bridge, error) {
	i := slices.IndexFunc(s.Bridges, func(b Bridge) bool { return b.Name == name })
	if i >= 0 {
		return s.Bridges[i], nil
	}
	var names []string
	for _, b := range s.Bridges {
		names = append(names, b.Name)
	}
	return Bridge{}, fmt.Errorf("bridge %q: the switch has no such bridge; %s", name, thereAre("bridge", "bridges", name, names))
}

// Port returns the port of a bridge. The error names the ports that exist.
func (b Bridge) Port(name string) (Port, error) {
	i := slices.IndexFunc(b.Ports, func(p Port) bool { return p.Name == name })
	if i >= 0 {
		return b.Ports[i], nil
	}
	var names []string
	for _, p := range b.Ports {
		names = append(names, p.Name)
	}
	return Port{}, fmt.Errorf("port %q: bridge %s has no such port; %s", name, b.Name, thereAre("port", "ports", name, names))
}

// thereAre lists what could have been meant, the likely ones only if there are.
func thereAre(one, many, name string, names []string) string {
	const most = 8
	if near := closest.Words(name, names, 2); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	switch n := len(names); {
	case n == 0:
		return "there is none; add one with ovs-vsctl"
	case n == 1:
		return fmt.Sprintf("its only %s is %s", one, names[0])
	case n > most:
		return fmt.Sprintf("it has %d %s, such as %s", n, many, strings.Join(names[:most], ", "))
	}
	return fmt.Sprintf("its %s are %s", many, strings.Join(names, ", "))
}
