// SPDX-License-Identifier: Apache-2.0

package paths

import (
	"fmt"
	"strings"
	"testing"
)

// dev makes a device of a host; options are "up:NAME" (it stands on, or is the other end of),
// "in:NAME" (master), "away" (the parent is elsewhere), "addressed", "xdp".
func hostOf(text string) (h DeviceList) {
	index := map[string]int{}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		index[strings.Fields(line)[0]] = i + 2
	}
	for _, line := range lines {
		words := strings.Fields(line)
		d := Device{Index: index[words[0]], Name: words[0], Kind: words[1]}
		for _, word := range words[2:] {
			what, of, _ := strings.Cut(word, ":")
			switch what {
			case "up":
				d.Parent = index[of]
			case "in":
				d.Master = index[of]
			case "away":
				d.Away, d.Parent = true, 2
			case "addressed":
				d.Addressed = true
			case "xdp":
				d.XDP = true
			}
		}
		h = append(h, d)
	}
	return h
}

// of makes a workload with devices of a host.
func of(h DeviceList, name string, devices ...string) Workload {
	w := Workload{Key: "netns:" + name, Name: name, Whole: true}
	for _, device := range devices {
		d, _ := h.named(device)
		w.Devices = append(w.Devices, d.Index)
	}
	return w
}

const (
	bridged = `
		eth0 device in:br0
		br0 bridge addressed
		va veth away in:br0
		vb veth away in:br0`
	routed = `
		eth0 device addressed
		docker0 bridge addressed
		va veth away in:docker0`
	firewalled = `
		eth0 device in:vmbr0
		vmbr0 bridge addressed
		fwbr1 bridge
		tap1 tuntap in:fwbr1
		fwln1 veth up:fwpr1 in:fwbr1
		fwpr1 veth up:fwln1 in:vmbr0`
	shared = firewalled + `
		tap2 tuntap in:fwbr1`
)

var both = []Link{{Device: "eth0", Egress: true, Ingress: true}}

func TestWhereAndWhatIsNotSteered(t *testing.T) {
	for _, c := range []struct {
		name, host string
		links      []Link
		workloads  func(h DeviceList) []Workload
		want       string // workload: PORTS where they are others; workload LINK PART REASON's beginning
	}{
		{"containers bridged to the uplink", bridged, both,
			func(h DeviceList) []Workload { return []Workload{of(h, "a", "va"), of(h, "b", "vb")} }, ""},
		{"the uplink's bridge is the link, workloads are routed to it", `
			eth0 device in:br0
			br0 bridge addressed
			docker0 bridge addressed
			va veth away in:docker0`, []Link{{Device: "br0", Egress: true, Ingress: true}},
			func(h DeviceList) []Workload { return []Workload{of(h, "a", "va")} }, ""},
		{"the uplink's bridge is the link, workloads are its ports", bridged, []Link{{Device: "br0", Egress: true}},
			func(h DeviceList) []Workload { return []Workload{of(h, "a", "va"), of(h, "b", "vb")} },
			"a: not steered by link br0: it is a port of the bridge br0, | name the port that leads out as the link instead of br0: eth0\n" +
				"b: not steered by link br0: it is a port of the bridge br0, | name the port that leads out as the link instead of br0: eth0"},
		{"a bridge without a way out is the link", `
			br0 bridge addressed
			va veth away in:br0`, []Link{{Device: "br0", Egress: true}},
			func(h DeviceList) []Workload { return []Workload{of(h, "a", "va")} }, ""},
		{"an XDP program at the uplink and at a port", `
			eth0 device addressed xdp
			docker0 bridge addressed
			va veth away in:docker0 xdp
			vb veth away in:docker0`, both, func(h DeviceList) []Workload { return []Workload{of(h, "a", "va"), of(h, "b", "vb")} },
			"a: egress not steered by link eth0: an XDP program at its port va takes its packets first, | take the program off va"},
		{"Docker's bridge", routed, both, func(h DeviceList) []Workload { return []Workload{of(h, "a", "va")} }, ""},
		{"a VLAN of the link in the workloads' bridge", `
			eth0 device
			eth0.7 vlan up:eth0 in:br7
			br7 bridge
			va veth away in:br7`, both, func(h DeviceList) []Workload { return []Workload{of(h, "a", "va")} }, ""},
		{"a bond of two cards in the bridge", `
			eth0 device in:bond0
			eth1 device in:bond0
			bond0 bond in:br0
			br0 bridge
			tap1 tuntap in:br0`, []Link{{Device: "bond0", Egress: true, Ingress: true}},
			func(h DeviceList) []Workload { return []Workload{of(h, "vm", "tap1")} }, ""},
		{"a guest behind a bridge of its own", firewalled, both,
			func(h DeviceList) []Workload { return []Workload{of(h, "vm", "tap1")} }, "vm at fwpr1"},
		{"the pair's end is a workload already", firewalled, both,
			func(h DeviceList) []Workload { return []Workload{of(h, "vm", "tap1"), of(h, "pair", "fwpr1")} },
			"vm: ingress not steered by link eth0: what comes by eth0 reaches it through the bridge vmbr0 | attach fwpr1 in place of tap1, or give each workload a bridge of its own behind vmbr0"},
		{"two guests behind one such bridge", shared, both,
			func(h DeviceList) []Workload { return []Workload{of(h, "vm", "tap1"), of(h, "two", "tap2")} },
			"vm: ingress not steered by link eth0: what comes by eth0 reaches it through the bridge vmbr0 and the pair at fwpr1, | attach fwpr1 in place of tap1\n" +
				"two: ingress not steered by link eth0: what comes by eth0 reaches it | attach fwpr1 in place of tap2"},
		{"the same, when ingress counts all", shared, []Link{{Device: "eth0", Ingress: true, Local: true}},
			func(h DeviceList) []Workload { return []Workload{of(h, "vm", "tap1"), of(h, "two", "tap2")} }, ""},
		{"the same without ingress", shared, []Link{{Device: "eth0", Egress: true}},
			func(h DeviceList) []Workload { return []Workload{of(h, "vm", "tap1"), of(h, "two", "tap2")} }, ""},
		{"a bridge is a workload, one of its ports another", `
			eth0 device addressed
			brlab bridge addressed
			va veth away in:brlab
			vb veth away in:brlab`, both,
			func(h DeviceList) []Workload { return []Workload{of(h, "lan", "brlab"), of(h, "a", "va")} }, "lan at vb"},
		{"the same bridge with the link as a port", bridged, both,
			func(h DeviceList) []Workload { return []Workload{of(h, "lan", "br0"), of(h, "a", "va")} }, "lan at vb"},
		{"a bridge as workload alone", bridged, both, func(h DeviceList) []Workload { return []Workload{of(h, "lan", "br0")} }, ""},
		{"an overlay beside the host's bridge", routed, both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Inside = []Interface{{Device: Device{Name: "eth0", Kind: "veth", Away: true}, Out: true}, {Device: Device{Name: "eth1", Kind: "veth", Away: true, Parent: 4}, Host: true}}
			return []Workload{w}
		}, "a: not steered: the other end of its eth0 is in another network namespace | connect the workload"},
		{"an engine inside of a container", routed, both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Inside = []Interface{{Device: Device{Name: "eth0", Kind: "veth", Away: true, Parent: 4}, Host: true},
				{Device: Device{Name: "docker0", Kind: "bridge"}}, {Device: Device{Name: "veth7", Kind: "veth", Away: true, Master: 9}}}
			return []Workload{w}
		}, ""},
		{"a macvlan on the link beside a veth", routed, both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Inside = []Interface{{Device: Device{Name: "lan0", Kind: "macvlan", Away: true, Parent: 2}, Host: true}}
			return []Workload{w}
		}, "a: not steered by link eth0: its lan0 (macvlan) stands on eth0 | use a bridge network"},
		{"the same, with a cgroup that holds it", routed, both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Sockets = true
			w.Inside = []Interface{{Device: Device{Name: "lan0", Kind: "macvlan", Away: true, Parent: 2}, Host: true}}
			return []Workload{w}
		}, ""},
		{"a macvlan on another card", routed + "\n\t\teth9 device", both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Inside = []Interface{{Device: Device{Name: "lan0", Kind: "macvlan", Away: true, Parent: 5}, Host: true}}
			return []Workload{w}
		}, ""},
		{"a tunnel of another namespace", routed, both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Inside = []Interface{{Device: Device{Name: "wg0", Kind: "wireguard", Away: true}, Host: true}, {Device: Device{Name: "vx", Kind: "vxlan", Parent: 2}}}
			return []Workload{w}
		}, "a: egress not steered: the packets of its wg0 are sent from another network namespace | make the tunnel"},
		{"a device that a person attached by name", routed, both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Whole = false
			w.Inside = []Interface{{Device: Device{Name: "eth0", Kind: "veth", Away: true}, Out: true}}
			return []Workload{w}
		}, ""},
		{"an eBPF data plane", routed, both, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Past = "va"
			return []Workload{w}
		}, "a: ingress not steered by link eth0: packets get into it without passing va | have the data plane route by the kernel"},
		{"no link at all", routed, nil, func(h DeviceList) []Workload {
			w := of(h, "a", "va")
			w.Past, w.Inside = "va", []Interface{{Device: Device{Name: "eth0", Kind: "veth", Away: true}, Out: true}}
			return []Workload{w}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := hostOf(c.host)
			r := Of(h, c.links, c.workloads(h))
			if got := text(r, c.workloads(h)); !alike(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// text is a result in the form of the table.
func text(r Result, workloads []Workload) string {
	var lines []string
	for _, w := range workloads {
		if taken, ok := r.Taken[w.Key]; ok {
			line := w.Name + " at"
			for _, p := range taken.Ports {
				line += " " + p.Name
			}
			lines = append(lines, line)
		}
	}
	for _, w := range workloads {
		for _, f := range r.Unsteered[w.Key] {
			lines = append(lines, fmt.Sprintf("%s: %s | %s", f.Name, f.Text(), f.Remedy))
		}
	}
	return strings.Join(lines, "\n")
}

// alike reports whether each line has the two parts of the wanted line, as beginnings.
func alike(got, want string) bool {
	have, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	if len(have) != len(wanted) {
		return false
	}
	for i := range have {
		reason, remedy, _ := strings.Cut(have[i], " | ")
		first, second, _ := strings.Cut(wanted[i], " | ")
		if !strings.HasPrefix(reason, first) || !strings.HasPrefix(remedy, second) || (first == "") != (reason == "") {
			return false
		}
	}
	return true
}
