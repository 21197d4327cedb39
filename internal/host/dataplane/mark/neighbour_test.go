// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// neighbour is another product that marks packets on the way from a pod to the uplink, by the rules
// that it documents.
type neighbour struct {
	name  string
	rules string // for a shell
	// looked prints how many packets its own rule has found by its bits; "" = it has none.
	looked string
	// program, if any, is what it runs at the pod's port: it writes this mark.
	program uint32
	// mark is what the packets have at the uplink without Weir, where the others look for
	// theirs.
	mark uint32
	// masked is the same with Weir's bits, if it is given some.
	mask   plan.Mask
	masked uint32
	// lost says that only a mask carries the class.
	lost bool
}

const (
	calico = `iptables -w -t raw -N cali-PREROUTING
iptables -w -t raw -A PREROUTING -j cali-PREROUTING
iptables -w -t raw -A cali-PREROUTING -j MARK --set-xmark 0x0/0xf0000
iptables -w -t raw -A cali-PREROUTING -i cali+ -j MARK --set-xmark 0x40000/0x40000
iptables -w -N cali-FORWARD
iptables -w -N cali-fw-cali1
iptables -w -A FORWARD -j cali-FORWARD
iptables -w -A cali-FORWARD -j MARK --set-xmark 0x0/0xe0000
iptables -w -A cali-FORWARD -i cali+ -j cali-fw-cali1
iptables -w -A cali-fw-cali1 -j MARK --set-xmark 0x0/0x10000
iptables -w -A cali-fw-cali1 -j MARK --set-xmark 0x10000/0x10000
iptables -w -A cali-FORWARD -m mark --mark 0x10000/0x10000 -j ACCEPT
iptables -w -A cali-FORWARD -o cali+ -m conntrack --ctstate ESTABLISHED -j ACCEPT
iptables -w -P FORWARD DROP`
	calicoLooked = `iptables -w -nvxL cali-FORWARD | awk '/mark match/ {print $1}'`

	// What is not marked 0x4000 is not masqueraded; the bit is taken off before.
	kubeProxy = `iptables -w -t nat -N KUBE-MARK-MASQ
iptables -w -t nat -N KUBE-POSTROUTING
iptables -w -N KUBE-FIREWALL
iptables -w -A FORWARD -j KUBE-FIREWALL
iptables -w -A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP
iptables -w -t nat -A PREROUTING -j KUBE-MARK-MASQ
iptables -w -t nat -A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
iptables -w -t nat -A POSTROUTING -j KUBE-POSTROUTING
iptables -w -t nat -A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
iptables -w -t nat -A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
iptables -w -t nat -A KUBE-POSTROUTING -j MASQUERADE --random-fully`
	kubeProxyLooked = `iptables -w -t nat -nvxL KUBE-POSTROUTING | awk '/MASQUERADE/ {print $1}'`

	kubeProxyNFT = `nft -f - <<END
table ip kube-proxy {
	chain mark-for-masquerade {
		meta mark set meta mark | 0x4000
	}
	chain services {
		type nat hook prerouting priority dstnat
		jump mark-for-masquerade
	}
	chain masquerading {
		meta mark & 0x4000 == 0 return
		meta mark set meta mark ^ 0x4000
		counter masquerade fully-random
	}
	chain nat-postrouting {
		type nat hook postrouting priority srcnat
		jump masquerading
	}
}
END`
	kubeProxyNFTLooked = `nft list chain ip kube-proxy masquerading | sed -n 's/.*packets \([0-9]*\) .*/\1/p'`

	flannel = `iptables -w -t nat -N FLANNEL-POSTRTG
iptables -w -t nat -A POSTROUTING -j FLANNEL-POSTRTG
iptables -w -t nat -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN
iptables -w -t nat -A FLANNEL-POSTRTG -s 10.65.0.0/16 ! -d 10.65.0.0/16 -j MASQUERADE --random-fully`
	flannelLooked = `iptables -w -t nat -nvxL FLANNEL-POSTRTG | awk '/MASQUERADE/ {print $1}'`

	// A filter of tc writes its class id over the seal; the mark stays.
	filter = `tc qdisc add dev cali1 clsact
tc filter add dev cali1 ingress u32 match u32 0 0 flowid 1:123`
)

const (
	assigned = `nft -f - <<END
table ip theirs {
	chain in {
		type filter hook prerouting priority mangle
		meta mark set 7
	}
}
END`

	// A firewall that keeps the whole mark of a connection, and lets it pass by what it has
	// kept.
	saved = `nft -f - <<END
table ip theirs {
	chain in {
		type filter hook prerouting priority mangle
		ct state new meta mark set meta mark | 0x90000
		ct state new ct mark set meta mark
		meta mark set ct mark
	}
	chain forward {
		type filter hook forward priority filter; policy drop
		ct mark 0x90000 meta mark 0x90000 counter accept
		ct direction reply accept
	}
}
END`
	savedLooked = `nft list chain ip theirs forward | sed -n 's/.*packets \([0-9]*\) .*/\1/p'`

	// As a transparent proxy has it. The route to the server is in no other table.
	routed = `nft -f - <<END
table ip theirs {
	chain in {
		type filter hook prerouting priority mangle
		iifname "cali1" meta mark set meta mark | 1
	}
}
END
ip rule add fwmark 1 lookup 100
ip route add 10.77.0.254 dev up0 table 100
ip route add unreachable 10.77.0.254`
)

var neighbours = []neighbour{
	{name: "none", mask: plan.UsualMask, masked: 0x50000},
	{name: "kube-proxy by iptables", rules: kubeProxy, looked: kubeProxyLooked, mask: plan.UsualMask, masked: 0x50000},
	{name: "kube-proxy by nftables", rules: kubeProxyNFT, looked: kubeProxyNFTLooked, mask: plan.UsualMask, masked: 0x50000},
	{name: "flannel beside kube-proxy", rules: flannel + "\n" + strings.ReplaceAll(kubeProxy, "-t nat -A PREROUTING -j", "-t nat -A PREROUTING -s 192.0.2.1 -j"), looked: flannelLooked, mask: plan.UsualMask, masked: 0x50000},
	{name: "a filter of tc", rules: filter, mask: plan.UsualMask, masked: 0x50000, lost: true},
	{name: "a filter of tc, bit 15 without a class", rules: strings.ReplaceAll(filter, "1:123", "1:8000"), lost: true},
	// Calico overwrites the low bits of the usual mask.
	{name: "calico", rules: calico, looked: calicoLooked, mark: 0x10000, mask: plan.UsualMask, masked: 0x10000},
	{name: "calico, the mask that weir doctor names", rules: calico, looked: calicoLooked, mark: 0x10000, mask: 0xfffe, masked: 0x1000a},
	{name: "calico and kube-proxy", rules: calico + "\n" + kubeProxy, looked: kubeProxyLooked, mark: 0x10000, mask: 0x3fff, masked: 0x10005},
	// Cilium assigns the whole mark (set_identity_mark).
	{name: "cilium", program: 1234<<16 | 0xf00, mark: 1234<<16 | 0xf00, mask: plan.UsualMask, masked: 1234<<16 | 0xf00},
	{name: "cilium, the bits that it does not use", program: 1234<<16 | 0xf00, mark: 1234<<16 | 0xf00, mask: 0xf000, masked: 1234<<16 | 0xf00},
	{name: "a mark without a mask", rules: assigned, mark: 7, mask: plan.UsualMask, masked: 7},
	{name: "a mark of the connection, saved and restored", rules: saved, looked: savedLooked, mark: 0x90000},
	{name: "a rule of routing that compares the whole mark", rules: routed, mark: 1},
}

// TestNeighbours sends a packet from a pod by routing to the uplink past what other products do to
// the mark. Nothing of theirs is different from a host without Weir, and the pod's class arrives.
// With a mask it arrives, too, where a filter of tc has taken the seal.
func TestNeighbours(t *testing.T) {
	for _, n := range neighbours {
		carriers := []plan.Carrier{{}, {Cilium: true}}
		if n.mask != 0 {
			carriers = append(carriers, plan.Carrier{Mask: n.mask}, plan.Carrier{Mask: n.mask, Cilium: true})
		}
		for _, carrier := range carriers {
			t.Run(fmt.Sprintf("%s/%#x,%v", n.name, uint32(carrier.Mask), carrier.Cilium), func(t *testing.T) { n.passes(t, carrier) })
		}
	}
}

func (n neighbour) passes(t *testing.T, carrier plan.Carrier) {
	for _, tool := range []string{"iptables", "nft"} {
		if _, err := exec.LookPath(tool); err != nil && strings.Contains(n.rules, tool+" ") {
			t.Skip("skipped: needs " + tool)
		}
	}
	host := netnstest.Enter(t)
	marktest.NoIPv6(host)
	m := newMarker(t, netnstest.Options(t), "tcx")
	m.carrier = carrier
	box, server := netnstest.New(t), netnstest.New(t)
	host.Run("sh", "-ec", `echo 1 >/proc/sys/net/ipv4/ip_forward
ip link add cali1 type veth peer name eth0 netns `+box.Name+`
ip link add up0 type veth peer name eth0 netns `+server.Name+`
ip addr add 10.65.0.1/32 dev cali1
ip link set cali1 up
ip route add 10.65.0.2 dev cali1
ip addr add 10.77.0.1/24 dev up0
ip link set up0 up`)
	box.Run("sh", "-ec", `ip addr add 10.65.0.2/32 dev eth0
ip link set eth0 up
ip route add 10.65.0.1 dev eth0
ip route add default via 10.65.0.1`)
	server.Run("sh", "-ec", `ip addr add 10.77.0.254/24 dev eth0
ip link set eth0 up
ip route add 10.65.0.0/16 via 10.77.0.1`)
	port, err := m.conn.Lookup("cali1")
	if err != nil {
		t.Fatal(err)
	}
	if n.program != 0 {
		marktest.Overwrite(t, port.Index, n.program) // it was there before Weir
	}
	if err := m.Attach(plan.Port{Device: "cali1", Ifindex: port.Index, Class: 5}, Marking{}); err != nil {
		t.Fatal(err)
	}
	if n.rules != "" {
		host.Run("sh", "-ec", n.rules)
	}
	uplink, err := m.conn.Lookup("up0")
	if err != nil {
		t.Fatal(err)
	}
	mark, tcIndex := witness(t, uplink.Index, ebpf.AttachTCXEgress), witnessOf(t, skbTCIndex, uplink.Index, ebpf.AttachTCXEgress)
	box.Run("ping", "-c", "1", "-W", "5", "10.77.0.254")
	wantClass, wantMark := plan.ClassID(5), n.mark
	if carrier.Mask != 0 {
		wantMark = n.masked
	} else if n.lost {
		wantClass = 0
	}
	if class, _ := carrier.Split(tcIndex(), mark()); class != wantClass {
		t.Errorf("class %d at the uplink, want %d (mark %#x, tc_index %#x)", class, wantClass, mark(), tcIndex())
	}
	if mark() != wantMark {
		t.Errorf("mark %#x at the uplink, want %#x", mark(), wantMark)
	}
	if n.looked == "" {
		return
	}
	if packets, err := strconv.Atoi(strings.TrimSpace(host.Run("sh", "-ec", n.looked))); err != nil || packets == 0 {
		t.Errorf("the rule that looks for its bits has found %d packets (%v)", packets, err)
	}
}
