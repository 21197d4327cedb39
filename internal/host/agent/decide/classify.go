// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"net/netip"

	"weir/internal/api"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// Classify says into which queue of a workload a packet goes, by which rule. It looks at the
// rules as they are wanted, by the classifier that the kernel's is tested against.
func (d Decision) Classify(name string, p api.Packet) (api.Placement, error) {
	packet, err := packetOf(p)
	if err != nil {
		return api.Placement{}, api.Mistake(err)
	}
	v, err := d.Resolve(name)
	if err != nil {
		return api.Placement{}, err
	}
	place, err := placement(v, packet)
	if err == nil {
		place.Text += unheldText(v)
	}
	return place, err
}

// packetOf checks what was said of a packet. An address that is not known is the
// unspecified one of the other's family, IPv4 if neither is: a rule on addresses
// does not fit it. The error is a *invalid.Error.
func packetOf(p api.Packet) (classify.Packet, error) {
	said := map[string]any{} // read as a match, whose keys have the same names
	for key, value := range map[string]string{"proto": p.Proto, "src": p.Src, "dst": p.Dst, "dscp": p.DSCP} {
		if value != "" {
			said[key] = value
		}
	}
	var m classify.Match
	var err error
	if len(said) > 0 {
		if m, err = classify.ParseMatch(said); err != nil {
			return classify.Packet{}, err
		}
	}
	packet := classify.Packet{
		Src: netip.IPv4Unspecified(), Dst: netip.IPv4Unspecified(), Proto: m.Proto.Value, DSCP: m.DSCP.Value,
		Sport: p.Sport, Dport: p.Dport, Ports: p.Sport != 0 || p.Dport != 0,
		VLAN: p.VLAN, Tagged: p.VLAN != 0, Priority: p.Priority, Mark: p.Mark,
	}
	if m.Src.Addr().Is6() || m.Dst.Addr().Is6() {
		packet.Src, packet.Dst = netip.IPv6Unspecified(), netip.IPv6Unspecified()
	}
	for _, end := range []struct {
		field string
		from  netip.Prefix
		into  *netip.Addr
	}{{"src", m.Src, &packet.Src}, {"dst", m.Dst, &packet.Dst}} {
		if !end.from.IsValid() {
			continue
		}
		if !end.from.IsSingleIP() {
			return classify.Packet{}, &invalid.Error{Field: end.field, Value: end.from.String(), Msg: "a packet has a single address", Remedy: "write one such as 10.0.0.2"}
		}
		*end.into = end.from.Addr()
	}
	return packet, nil
}

// placement says where a workload's packet goes.
func placement(v Ruling, packet classify.Packet) (api.Placement, error) {
	if err := v.Policy.Check(); err != nil {
		return api.Placement{}, api.Mistake(err)
	}
	d := v.Policy.Discipline.OrDefault()
	place := api.Placement{Name: v.Name, Discipline: string(d)}
	dscp := v.Policy.DSCP
	if !d.HasQueues() {
		place.Text = map[discipline.Name]string{
			discipline.SFQ:  v.Name + " has discipline sfq: each flow has a queue of its own, rules have no part in it.",
			discipline.FIFO: v.Name + " has discipline fifo: all its packets wait in one queue.",
		}[d]
	} else {
		rules, err := classify.Compile(policy.MatchesOf(v.Policy.Queues))
		if err != nil {
			return api.Placement{}, api.Mistake(err)
		}
		number, rule := rules.Classify(packet)
		queue := v.Policy.Queues[number]
		place.Queue = queue.Name
		place.Text = fmt.Sprintf("no rule fits; queue %s, number %d of %d of %s, takes what fits nowhere.", queue.Name, number+1, len(v.Policy.Queues), v.Name)
		if rule >= 0 {
			place.Rule = queue.Match[rules.List[rule].Match].String()
			place.Text = fmt.Sprintf("rule %s comes first; queue %s, number %d of %d of %s.", place.Rule, queue.Name, number+1, len(v.Policy.Queues), v.Name)
		}
		place.Text = sentence(place.Text)
		if queue.DSCP != nil {
			dscp = queue.DSCP
		}
	}
	if dscp != nil {
		place.DSCP = classify.DSCPName(*dscp)
		place.Text += fmt.Sprintf(" It leaves with DSCP %s (%d).", place.DSCP, *dscp)
	}
	return place, nil
}
