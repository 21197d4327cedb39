// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/dataplane/device/netnstest"
	"weir/internal/dataplane/mark/marktest"
	"weir/internal/plan"
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
	mask    plan.Mask
	// mark is what the packets have at the uplink, where the others look for theirs.
	mark uint32
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

var neighbours = []neighbour{
	{name: "none", mask: plan.DefaultMask, mark: 0x50000},
	{name: "kube-proxy by iptables", rules: kubeProxy, looked: kubeProxyLooked, mask: plan.DefaultMask, mark: 0x50000},
	{name: "kube-proxy by nftables", rules: kubeProxyNFT, looked: kubeProxyNFTLooked, mask: plan.DefaultMask, mark: 0x50000},
	{name: "flannel beside kube-proxy", rules: flannel + "\n" + strings.ReplaceAll(kubeProxy, "-t nat -A PREROUTING -j", "-t nat -A PREROUTING -s 192.0.2.1 -j"), looked: flannelLooked, mask: plan.DefaultMask, mark: 0x50000},
	{name: "a filter of tc", rules: filter, mask: plan.DefaultMask, mark: 0x50000},
	{name: "a filter of tc, bit 15 without a class", rules: strings.ReplaceAll(filter, "1:123", "1:8001"), mask: plan.DefaultMask, mark: 0x50000},
	// Calico overwrites the low bits of the default mask.
	{name: "calico, the default mask", rules: calico, looked: calicoLooked, mask: plan.DefaultMask, mark: 0x10000},
	{name: "calico, the mask that weir doctor names", rules: calico, looked: calicoLooked, mask: 0xfffe, mark: 0x1000a},
	{name: "calico and kube-proxy", rules: calico + "\n" + kubeProxy, looked: kubeProxyLooked, mask: 0x3fff, mark: 0x10005},
	// Cilium assigns the whole mark (set_identity_mark).
	{name: "cilium, the default mask", program: 1234<<16 | 0xf00, mask: plan.DefaultMask, mark: 1234<<16 | 0xf00},
	{name: "cilium, the bits that it does not use", program: 1234<<16 | 0xf00, mask: 0xf000, mark: 1234<<16 | 0xf00},
}

// TestNeighbours sends a packet from a pod by routing to the uplink past what other products do to
// the mark. The pod's class arrives in each case, by the seal where the mark is overwritten, and so
// do their bits; their own rules find what they look for.
func TestNeighbours(t *testing.T) {
	for _, n := range neighbours {
		t.Run(n.name, func(t *testing.T) {
			for _, tool := range []string{"iptables", "nft"} {
				if _, err := exec.LookPath(tool); err != nil && strings.Contains(n.rules, tool+" ") {
					t.Skip("skipped: needs " + tool)
				}
			}
			host := netnstest.Enter(t)
			marktest.NoIPv6(host)
			m := newMarker(t, netnstest.Options(t), "tcx")
			m.mask = n.mask
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
			if class := classOf(m.mask, mark(), tcIndex()); class != 5 {
				t.Errorf("class %d at the uplink, want 5 (mark %#x, tc_index %#x)", class, mark(), tcIndex())
			}
			if mark() != n.mark {
				t.Errorf("mark %#x at the uplink, want %#x", mark(), n.mark)
			}
			if n.looked == "" {
				return
			}
			if packets, err := strconv.Atoi(strings.TrimSpace(host.Run("sh", "-ec", n.looked))); err != nil || packets == 0 {
				t.Errorf("the rule that looks for its bits has found %d packets (%v)", packets, err)
			}
		})
	}
}

// classOf returns the class of a packet as the qdisc finds it (bpf/marking/seal.h).
func classOf(mask plan.Mask, mark, tcIndex uint32) plan.ClassID {
	const sealed, shift = 0x8000, 5
	if class := plan.ClassID(tcIndex >> shift & (sealed>>shift - 1)); tcIndex&sealed != 0 && class != 0 {
		return class
	}
	class, _ := mask.Split(mark)
	return class
}

// TestSeal holds what docs/kubernetes.md says of Cilium: the bits of skb->tc_index by which it
// skips proxies, services and its firewall stay clear, whatever the class.
func TestSeal(t *testing.T) {
	const flagsOfCilium = 0x1f
	for class := range plan.ClassID(plan.MaxClasses) {
		got := seal(class)
		if got&flagsOfCilium != 0 || got>>16 != 0 {
			t.Fatalf("class %d: seal %#x", class, got)
		}
		mark := plan.DefaultMask.Value(class, 3)
		if found := classOf(plan.DefaultMask, mark, got); found != class {
			t.Fatalf("class %d: seal %#x and mark %#x say %d", class, got, mark, found)
		}
		if found := classOf(plan.DefaultMask, 0xffff_ffff, got); class != 0 && class < 1024 && found != class {
			t.Fatalf("class %d: with its mark overwritten, seal %#x says %d", class, got, found)
		}
	}
}
