// SPDX-License-Identifier: Apache-2.0

package paths

import (
	"fmt"
	"slices"
	"strings"
)

// UnsteeredTraffic is a part of a workload's traffic that a link does not hold.
type UnsteeredTraffic struct {
	Key, Name string // the workload
	Link      string // "" = no link would
	Part      string // "egress", "ingress", or "" for both
	Reason    string
	Remedy    string
}

// String returns what is not steered, why, and what to do.
func (f UnsteeredTraffic) String() string { return f.Text() + "; " + f.Remedy }

// Text returns what is not steered, and why.
func (f UnsteeredTraffic) Text() string {
	text := "not steered"
	if f.Part != "" {
		text = f.Part + " not steered"
	}
	if f.Link != "" {
		text += " by link " + f.Link
	}
	return text + ": " + f.Reason
}

// Result is what follows for the workloads of a host.
type Result struct {
	// Taken is where the packets of a workload are taken, by its key, if that is not at the
	// devices that its source names.
	Taken map[string]Taken
	// Unsteered is what of a workload does not meet the links, by its key.
	Unsteered map[string][]UnsteeredTraffic
}

// Taken is where the packets are taken that pass some devices of a workload.
type Taken struct {
	Devices []int // as its source names them
	Ports   []Port
}

// Of returns where the packets of workloads are taken, and which are not.
func Of(h DeviceList, links []Link, workloads []Workload) Result {
	m := model{host: h, links: links, owners: map[int]string{}}
	for _, w := range workloads {
		for _, index := range w.Devices {
			m.owners[index] = w.Key
		}
	}
	r := Result{Taken: map[string]Taken{}, Unsteered: map[string][]UnsteeredTraffic{}}
	for _, w := range workloads {
		taken := m.taken(w)
		if !slices.EqualFunc(taken, w.Devices, func(p Port, index int) bool { return p.Index == index }) {
			r.Taken[w.Key] = Taken{w.Devices, taken}
		}
		if found := m.unsteered(w, taken); len(found) > 0 {
			r.Unsteered[w.Key] = found
		}
	}
	return r
}

type model struct {
	host   DeviceList
	links  []Link
	owners map[int]string // keys of workloads by the index of a device
}

// taken returns the devices at which a workload's packets are taken.
func (m model) taken(w Workload) (ports []Port) {
	for _, index := range w.Devices {
		d, ok := m.host.at(index)
		if !ok {
			ports = append(ports, Port{Index: index})
			continue
		}
		for _, d := range m.outward(d, w.Key) {
			ports = append(ports, Port{d.Name, d.Index})
		}
	}
	return ports
}

// outward returns the devices at which what passes a port is taken. A bridge of which a port
// belongs to another workload is taken at its other ports, so that the inner workload's packets
// are not taken twice. A port in a bridge that has nothing else but one end of a pair is taken at
// the pair's other end, where what comes by a link has not come by another device since.
func (m model) outward(d Device, key string) []Device {
	if d.Kind == "bridge" {
		return m.without(d, key)
	}
	for range mostHops {
		bridge, ok := m.host.at(d.Master)
		if !ok || bridge.Kind != "bridge" || bridge.Addressed || m.isLink(bridge.Name) {
			break
		}
		others := slices.DeleteFunc(m.host.portsOf(bridge.Index), func(p Device) bool { return p.Index == d.Index })
		if len(others) != 1 || m.isLink(others[0].Name) {
			break
		}
		end, ok := m.host.otherEnd(others[0])
		if !ok || end.Master == 0 || m.owned(end.Index, key) || m.owned(others[0].Index, key) {
			break
		}
		d = end
	}
	return []Device{d}
}

// without returns a bridge, or its ports without those of other workloads and links if it has any
// of another workload.
func (m model) without(bridge Device, key string) []Device {
	ports := m.host.portsOf(bridge.Index)
	if !slices.ContainsFunc(ports, func(p Device) bool { return m.owned(p.Index, key) }) {
		return []Device{bridge}
	}
	return slices.DeleteFunc(ports, func(p Device) bool { return m.owned(p.Index, key) || m.leadsToLink(p.Index) })
}

// owned reports whether a device belongs to another workload.
func (m model) owned(index int, key string) bool {
	owner, ok := m.owners[index]
	return ok && owner != key
}

func (m model) isLink(name string) bool {
	return slices.ContainsFunc(m.links, func(l Link) bool { return l.Device == name })
}

// leadsToLink reports whether a device is a link or stands on one.
func (m model) leadsToLink(index int) bool {
	return slices.ContainsFunc(m.host.below(index), func(i int) bool {
		d, _ := m.host.at(i)
		return m.isLink(d.Name)
	})
}

// unsteered returns what of a workload's traffic does not meet the links.
func (m model) unsteered(w Workload, taken []Port) (found []UnsteeredTraffic) {
	say := func(link, part, reason, remedy string) {
		f := UnsteeredTraffic{w.Key, w.Name, link, part, reason, remedy}
		if !slices.Contains(found, f) {
			found = append(found, f)
		}
	}
	for _, l := range m.links {
		for _, port := range taken {
			d, _ := m.host.at(port.Index)
			m.bridgeAsLink(l, d, say)
			m.secondBridge(l, d, say)
			if d.XDP && l.Egress {
				say(l.Device, "egress", "an XDP program at its port "+d.Name+" takes its packets first, and those that it redirects pass by the queue of the link",
					"take the program off "+d.Name+" (ip link set dev "+d.Name+" xdp off), or attach it by tcx")
			}
		}
		if w.Past != "" && l.Ingress {
			say(l.Device, "ingress", "packets get into it without passing "+w.Past+": an eBPF data plane carries them (bpf_redirect_peer, or XDP)",
				"have the data plane route by the kernel, in Cilium bpf.hostLegacyRouting: true, in Calico the standard data plane")
		}
	}
	if len(m.links) > 0 {
		m.inside(w, say)
	}
	return found
}

type sayer func(link, part, reason, remedy string)

// bridgeAsLink says that frames between ports of a bridge do not pass the bridge's own queue.
func (m model) bridgeAsLink(l Link, port Device, say sayer) {
	bridge, ok := m.host.named(l.Device)
	if !ok || bridge.Kind != "bridge" || port.Master != bridge.Index {
		return
	}
	var out []string
	for _, p := range m.host.portsOf(bridge.Index) {
		if _, owned := m.owners[p.Index]; !owned && p.Index != port.Index {
			out = append(out, p.Name)
		}
	}
	if len(out) == 0 {
		return
	}
	say(l.Device, "", fmt.Sprintf("it is a port of the bridge %s, and what goes from port to port passes the queue of the other port and not the bridge's", l.Device),
		fmt.Sprintf("name the port that leads out as the link instead of %s: %s", l.Device, strings.Join(out, " or ")))
}

// secondBridge says that what comes by a link reaches a port by a pair between two bridges.
func (m model) secondBridge(l Link, port Device, say sayer) {
	bridge, ok := m.host.at(port.Master)
	link, there := m.host.named(l.Device)
	if !ok || !there || !l.Ingress || l.Local || bridge.Kind != "bridge" || bridge.Addressed || m.reaches(bridge.Index, link.Index) {
		return
	}
	for _, end := range m.host.across(bridge.Index) {
		if !m.reaches(end.Master, link.Index) {
			continue
		}
		outer, _ := m.host.at(end.Master)
		say(l.Device, "ingress", fmt.Sprintf("what comes by %s reaches it through the bridge %s and the pair at %s, and has come by another device since", l.Device, outer.Name, end.Name),
			fmt.Sprintf("attach %s in place of %s, or give each workload a bridge of its own behind %s", end.Name, port.Name, outer.Name))
		return
	}
}

// reaches reports whether a bridge is on a link: one of its ports is the link or stands on it.
func (m model) reaches(bridge, link int) bool {
	return slices.Contains(m.host.below(bridge), link)
}
