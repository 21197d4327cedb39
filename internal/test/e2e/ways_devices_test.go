// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// filterWays are filters, qdiscs and rules in the workload's namespace.
var filterWays = []way{
	{name: "a filter's class id", kinds: ownNetwork, how: "`tc filter ... egress u32 ... classid`, which writes the seal of another workload into tc_index", end: charged,
		setup: func(x *attack) error {
			return x.do("tc qdisc add dev eth0 clsact",
				fmt.Sprintf("tc filter add dev eth0 egress u32 match u32 0 0 classid 1:%x", x.seal()))
		}},
	{name: "skbedit", kinds: ownNetwork, how: "`tc filter ... egress matchall action skbedit` of mark, priority and queue_mapping", end: charged,
		setup: func(x *attack) error {
			return x.do("tc qdisc add dev eth0 clsact",
				fmt.Sprintf("tc filter add dev eth0 egress matchall action skbedit mark %d priority %x:%x queue_mapping 0", x.mark(), weirMajor, x.Victim))
		}},
	{name: "a qdisc's class", kinds: ownNetwork, how: "a qdisc of its own with the handle of Weir's, and a class id in it", end: charged,
		setup: func(x *attack) error {
			return x.do(fmt.Sprintf("tc qdisc replace dev eth0 root handle %x: htb default %x", weirMajor, x.Victim),
				fmt.Sprintf("tc class add dev eth0 parent %x: classid %x:%x htb rate 1gbit", weirMajor, weirMajor, x.Victim),
				fmt.Sprintf("tc filter add dev eth0 parent %x: u32 match u32 0 0 classid %x:%x", weirMajor, weirMajor, x.Victim))
		}},
	{name: "netfilter", kinds: ownNetwork, how: "iptables' MARK, and CLASSIFY, which sets the priority", end: charged,
		setup: func(x *attack) error {
			return x.do(fmt.Sprintf("iptables -t mangle -A POSTROUTING -j MARK --set-mark %d", x.mark()),
				fmt.Sprintf("iptables -t mangle -A POSTROUTING -j CLASSIFY --set-class %x:%x", weirMajor, x.Victim))
		}},
	{name: "a BPF program", kinds: everyKind, how: "a program of its own, for a filter that writes tc_index", end: impossible,
		open: func(x *attack) (send, error) {
			prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
				Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
			if err == nil {
				prog.Close()
			}
			return func(uint64) error { return nil }, err
		}},
}

// deviceWays are namespaces and devices that the workload makes.
var deviceWays = []way{
	{name: "a moved device", kinds: []kind{onPort}, how: "eth0 moves into a network namespace inside the workload's (`unshare -Urn`)", end: charged,
		setup: func(x *attack) error {
			return firstOf(x.nest(), x.do(fmt.Sprintf("ip link set eth0 netns %d", x.Nested)),
				x.inside(fmt.Sprintf("ip addr add %s/16 dev eth0", x.From), "ip link set eth0 up",
					fmt.Sprintf("ip neigh replace %s lladdr %s dev eth0 nud permanent", x.To, x.ToMAC)))
		}},
	{name: "forwarding", kinds: []kind{onPort}, how: "a veth into a nested namespace, from which the workload forwards with another workload's mark", end: charged, setup: forwards},
	{name: "forwarding over a macvlan", kinds: []kind{onMacvlan}, how: "the same", end: notHeld, setup: forwards,
		condition: asForwarded},
	{name: "bridging", kinds: []kind{onPort}, how: "a bridge over eth0", end: charged,
		setup: func(x *attack) error {
			return firstOf(x.do("ip link add b0 type bridge", "ip link set eth0 master b0"), x.takeOver("b0"))
		}},
	{name: "a macvlan inside", kinds: ownNetwork, how: "a macvlan on eth0", end: charged, setup: stackedOn("type macvlan mode bridge")},
	{name: "an ipvlan inside", kinds: ownNetwork, how: "an ipvlan on eth0", end: charged, setup: stackedOn("type ipvlan mode l2")},
	{name: "a VLAN inside", kinds: ownNetwork, how: "a VLAN on eth0", end: charged, setup: stackedOn("type vlan id 5")},
	{name: "QinQ inside", kinds: ownNetwork, how: "a VLAN on one of 802.1ad on eth0", end: charged,
		setup: func(x *attack) error {
			return firstOf(x.do("ip link add link eth0 name o0 type vlan proto 802.1ad id 5", "ip link set o0 up", "ip link add link o0 name s0 type vlan id 7"), x.takeOver("s0"))
		}},
	{name: "a bond inside", kinds: []kind{onPort}, how: "a bond of eth0", end: charged,
		setup: func(x *attack) error {
			return firstOf(x.do("ip link add o0 type bond mode active-backup", "ip link set eth0 down", "ip link set eth0 master o0"), x.takeOver("o0"))
		}},
	{name: "a bond inside, broadcast", kinds: []kind{onPort}, how: "a bond of eth0 and a dummy that sends each packet by both", end: charged,
		setup: func(x *attack) error {
			return firstOf(x.do("ip link add o0 type bond mode broadcast", "ip link add y0 type dummy", "ip link set y0 master o0",
				"ip link set eth0 down", "ip link set eth0 master o0"), x.takeOver("o0"))
		}},
	{name: "a dummy and mirred", kinds: []kind{onPort}, how: "a dummy, from which a filter redirects to eth0 with another workload's mark", end: charged, setup: redirects},
	{name: "mirred over a macvlan", kinds: []kind{onMacvlan}, how: "the same", end: notHeld, setup: redirects, condition: asForwarded},
	{name: "a tun inside", kinds: []kind{onPort}, how: "packets that a program writes into a tun, forwarded", end: charged, open: byTun},
	{name: "VXLAN", kinds: ownNetwork, how: "a tunnel to the server", end: charged,
		setup: tunnel("ip link add v0 type vxlan id 7 local %s remote %s dstport 4789 dev eth0")},
	{name: "IP in IP", kinds: ownNetwork, how: "a tunnel to the server", end: charged, setup: tunnel("ip link add v0 type ipip local %s remote %s dev eth0")},
	{name: "GRE", kinds: ownNetwork, how: "a tunnel to the server", end: charged, setup: tunnel("ip link add v0 type gre local %s remote %s dev eth0")},
	{name: "gretap", kinds: ownNetwork, how: "a tunnel to the server", end: charged, setup: tunnel("ip link add v0 type gretap local %s remote %s dev eth0")},
	{name: "xfrm", kinds: ownNetwork, how: "ESP in tunnel mode to the server", end: charged,
		setup: func(x *attack) error {
			esp := fmt.Sprintf("src %s dst %s proto esp spi 7 mode tunnel", x.From, x.To)
			return x.do("ip xfrm state add "+esp+" enc cbc(aes) 0x000102030405060708090a0b0c0d0e0f",
				fmt.Sprintf("ip xfrm policy add src %s dst %s dir out tmpl %s", x.From, x.To, esp))
		}},
	byWireGuard,
}

// hostDeviceWays are macvlans that a workload with a veth makes on the bridge above the link.
var hostDeviceWays = []way{
	{name: "a macvlan on a device of the host", kinds: []kind{onPort}, how: "IFLA_LINK_NETNSID names the host's namespace, where CAP_NET_ADMIN counts without a user namespace of its own", end: charged,
		setup: func(x *attack) error { return firstOf(x.onHostDevice(), x.takeOver("m0")) }},
	{name: "a macvlan on a device of the host, sealed", kinds: []kind{onPort}, how: "the same, and a filter's class id there", end: charged,
		setup: func(x *attack) error {
			return firstOf(x.onHostDevice(), x.takeOver("m0"), x.do("tc qdisc add dev m0 clsact",
				fmt.Sprintf("tc filter add dev m0 egress u32 match u32 0 0 classid 1:%x", x.seal())))
		}},
	{name: "forwarding over a device of the host", kinds: []kind{onPort}, how: "a macvlan like that, by which the workload forwards", end: notHeld,
		setup: func(x *attack) error { return firstOf(x.onHostDevice(), x.takeOver("m0"), forwards(x)) },
		condition: "a workload with NET_ADMIN and without a user namespace of its own, which has it over the host's devices, too: the packet seems to come by a device. " +
			"`weir get` says so; take the capability, or give it a user namespace"},
}

// onHostDevice makes m0, a macvlan on the bridge of the host that has the address of the
// workload's link. Network namespace 0 is the first that the workload's own has met: the host's.
func (x *attack) onHostDevice() error {
	lower, err := hostBridge(hostIn(int(x.From.To4()[1]) - 88).mac)
	if err != nil {
		return err
	}
	q := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("macvlan"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_MACVLAN_MODE, nl.Uint32Attr(nl.MACVLAN_MODE_BRIDGE))
	for _, part := range []nl.NetlinkRequestData{nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("m0")),
		nl.NewRtAttr(unix.IFLA_LINK, nl.Uint32Attr(uint32(lower))), nl.NewRtAttr(unix.IFLA_LINK_NETNSID, nl.Uint32Attr(0)), info} {
		q.AddData(part)
	}
	_, err = q.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// hostBridge returns the index of a bridge of network namespace 0.
func hostBridge(mac net.HardwareAddr) (int, error) {
	for i := 1; i < 256; i++ {
		q := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
		about := nl.NewIfInfomsg(unix.AF_UNSPEC)
		about.Index = int32(i)
		q.AddData(about)
		q.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(0)))
		answers, err := q.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
		if err != nil || len(answers) == 0 {
			continue
		}
		link, err := netlink.LinkDeserialize(nil, answers[0])
		if err == nil && link.Type() == "bridge" && bytes.Equal(link.Attrs().HardwareAddr, mac) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no bridge of the host has the address %s", mac)
}

// asForwarded is when a packet seems to come by a device of the host.
const asForwarded = "a workload that is known by its cgroup, on a macvlan or ipvlan, with NET_ADMIN: the packet seems to come by a device. " +
	"`weir get` says so; take the capability, or use a network with veths"

// redirects sends by a dummy, from which a filter sends on by eth0.
func redirects(x *attack) error {
	return firstOf(x.do("ip link add y0 type dummy", "tc qdisc add dev y0 clsact",
		fmt.Sprintf("tc filter add dev y0 egress matchall action skbedit mark %d pipe action mirred egress redirect dev eth0", x.mark())), x.takeOver("y0"))
}

// stackedOn makes a device on eth0 and sends by it.
func stackedOn(how string) func(x *attack) error {
	return func(x *attack) error {
		return firstOf(x.do("ip link add link eth0 name s0 "+how), x.takeOver("s0"))
	}
}

// tunnel makes a tunnel and sends through it.
func tunnel(command string) func(x *attack) error {
	return func(x *attack) error {
		err := x.do(fmt.Sprintf(command, x.From, x.To), "ip addr add 10.99.0.1/24 dev v0", "ip link set v0 up")
		if err == nil {
			err = x.do(fmt.Sprintf("ip neigh replace 10.99.0.2 lladdr %s dev v0 nud permanent", x.ToMAC))
		}
		x.From, x.To = []byte{10, 99, 0, 1}, []byte{10, 99, 0, 2}
		return err
	}
}

// forwards sends from a nested namespace through the workload's, which marks what it forwards.
func forwards(x *attack) error {
	err := firstOf(x.nest(), x.do("ip link add i0 type veth peer name i1", fmt.Sprintf("ip link set i1 netns %d", x.Nested),
		"ip addr add 10.99.0.1/24 dev i0", "ip link set i0 up", "sysctl -qw net.ipv4.ip_forward=1",
		fmt.Sprintf("iptables -t mangle -A POSTROUTING -j MARK --set-mark %d", x.mark())),
		x.inside("ip addr add 10.99.0.2/24 dev i1", "ip link set i1 up", "ip route add default via 10.99.0.1"))
	x.From = []byte{10, 99, 0, 2}
	return err
}
