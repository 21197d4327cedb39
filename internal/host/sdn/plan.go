// SPDX-License-Identifier: Apache-2.0

package sdn

import (
	"errors"
	"fmt"
	"strings"

	"weir/internal/config"
	"weir/internal/host/sdn/openflow"
	"weir/internal/host/sdn/ovsdb"
	"weir/internal/host/sdn/switchport"
)

// state is the present state of a bridge.
type state struct {
	snapshot ovsdb.Content
	ports    map[string]uint32 // the bridge's, OpenFlow number by name
	flows    []openflow.Flow   // Weir's on the bridge
}

// plan holds the changes to make.
type plan struct {
	rows    []ovsdb.PortQoS
	orphans []ovsdb.QoS
	flows   []openflow.FlowMod
	changes []string // for people
}

// ErrForeign is wrapped by the refusal of a port that has another program's QoS row.
var ErrForeign = errors.New("that Weir did not set")

// planApply returns the changes that make the bridge as the file describes it.
func planApply(s config.Switch, have state, force bool) (plan, error) {
	bridge, err := have.snapshot.Bridge(s.Bridge)
	if err != nil {
		return plan{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	wanted, err := wantedRows(s, bridge)
	if err != nil {
		return plan{}, fmt.Errorf("%s: %w", s.Path, err)
	}
	flows, err := compileFlows(s, have.ports)
	if err != nil {
		return plan{}, err
	}
	var p plan
	for _, port := range bridge.Ports {
		want := wanted[port.Name]
		if want == nil {
			continue
		}
		if port.QoS != nil && !port.QoS.Own() && !force {
			return plan{}, fmt.Errorf("port %s of bridge %s has a QoS row of type %q (%s) %w; remove it (ovs-vsctl clear port %s qos), or add --force",
				port.Name, port.Bridge, port.QoS.Type, port.QoS.UUID, ErrForeign, port.Name)
		}
		p.takePort(port, want)
	}
	p.giveBack(have.snapshot, bridge, func(name string) bool { return wanted[name] == nil })
	p.takeFlows(have.flows, flows)
	return p, nil
}

// planDelete takes away everything of Weir's on a bridge. One that is gone has no
// flows, but may have left rows.
func planDelete(name string, have state) plan {
	var p plan
	bridge, _ := have.snapshot.Bridge(name)
	bridge.Name = name
	p.giveBack(have.snapshot, bridge, func(string) bool { return true })
	p.takeFlows(have.flows, nil)
	return p
}

// wantedRows returns the rows of the file's ports, by port.
func wantedRows(s config.Switch, bridge ovsdb.Bridge) (map[string]*ovsdb.QoS, error) {
	rows := map[string]*ovsdb.QoS{}
	for _, p := range s.Ports {
		port, err := bridge.Port(p.Name)
		if err != nil {
			return nil, err
		}
		if _, err := port.Device(); err != nil {
			return nil, err
		}
		rows[p.Name] = switchport.Encode(switchport.Port{Bridge: s.Bridge, Name: p.Name, Bandwidth: p.Bandwidth, Policy: p.Policy})
	}
	return rows, nil
}

// takePort gives a port its row, and remembers whose it takes the place of.
func (p *plan) takePort(port ovsdb.Port, want *ovsdb.QoS) {
	was := port.QoS
	switch {
	case was.Own() && was.ExternalIDs[ovsdb.Former] != "":
		want.ExternalIDs[ovsdb.Former] = was.ExternalIDs[ovsdb.Former]
	case was != nil && !was.Own():
		want.ExternalIDs[ovsdb.Former] = was.UUID
	}
	if was.Own() && was.Same(want) {
		return
	}
	p.rows = append(p.rows, ovsdb.PortQoS{Port: port, Want: want})
	text := fmt.Sprintf("port %s: ", port.Name)
	switch {
	case was.Own():
		text += describe(was) + " -> " + describe(want)
	case was != nil:
		text += fmt.Sprintf("%s instead of the QoS row %s of type %s", describe(want), was.UUID, was.Type)
	default:
		text += describe(want)
	}
	p.changes = append(p.changes, text)
}

// giveBack takes Weir's rows from ports, and away where their port is gone.
func (p *plan) giveBack(s ovsdb.Content, bridge ovsdb.Bridge, unwanted func(port string) bool) {
	for _, port := range bridge.Ports {
		if !port.QoS.Own() || !unwanted(port.Name) {
			continue
		}
		change, text := ovsdb.PortQoS{Port: port}, fmt.Sprintf("port %s: no more %s", port.Name, describe(port.QoS))
		if id := port.QoS.ExternalIDs[ovsdb.Former]; s.QoS[id] != nil {
			change.Back = id
			text += fmt.Sprintf(", the QoS row %s of type %s is back", id, s.QoS[id].Type)
		}
		p.rows = append(p.rows, change)
		p.changes = append(p.changes, text)
	}
	for _, q := range s.Orphans {
		if owner := q.ExternalIDs[ovsdb.Owner]; strings.HasPrefix(owner, bridge.Name+"/") {
			p.orphans = append(p.orphans, q)
			p.changes = append(p.changes, fmt.Sprintf("QoS row of %s, whose port is gone: removed", owner))
		}
	}
}

// takeFlows makes Weir's flows those wanted. Removals come first, so that a full
// table has room.
func (p *plan) takeFlows(have, want []openflow.Flow) {
	wanted, there := byKey(want), byKey(have)
	var added, removed, changed int
	for _, f := range have {
		if _, ok := wanted[f.Key()]; !ok {
			p.flows = append(p.flows, openflow.FlowMod{Command: openflow.DeleteStrict, Flow: f})
			removed++
		}
	}
	for _, f := range want {
		switch was, ok := there[f.Key()]; {
		case !ok:
			added++
		case was.Same(f):
			continue
		default:
			changed++
		}
		p.flows = append(p.flows, openflow.FlowMod{Command: openflow.Add, Flow: f})
	}
	var words []string
	for _, c := range []struct {
		n    int
		word string
	}{{added, "added"}, {changed, "changed"}, {removed, "removed"}} {
		if c.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", c.n, c.word))
		}
	}
	if len(words) > 0 {
		p.changes = append(p.changes, "flows: "+strings.Join(words, ", "))
	}
}

func byKey(flows []openflow.Flow) map[string]openflow.Flow {
	m := make(map[string]openflow.Flow, len(flows))
	for _, f := range flows {
		m[f.Key()] = f
	}
	return m
}

// describe returns a row of Weir's in one line: "llq at 8 Mbit/s, voice rate 1 Mbit/s,
// rest min 1 Mbit/s".
func describe(q *ovsdb.QoS) string {
	p, err := switchport.Decode(ovsdb.Port{QoS: q, Interfaces: []ovsdb.Interface{{Name: "-"}}})
	if err != nil {
		return "rows that cannot be read"
	}
	words := []string{fmt.Sprintf("%s at %s", p.Policy.Discipline, p.Bandwidth)}
	for _, queue := range p.Policy.Queues {
		word := queue.Name
		if !queue.Rate.None() {
			word += " rate " + queue.Rate.String()
		}
		if !queue.Min.None() {
			word += " min " + queue.Min.String()
		}
		words = append(words, word)
	}
	if aqm := p.Policy.AQM.Compact(); aqm != "" {
		words = append(words, "aqm "+aqm)
	}
	return strings.Join(words, ", ")
}
