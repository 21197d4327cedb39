// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

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
	// class is what the packets have at the uplink; that of the pod, 5, where the two get along.
	class plan.ClassID
	// whole is the mark at the uplink but for Weir's bits.
	whole uint32
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
)

var neighbours = []neighbour{
	{name: "none", mask: plan.DefaultMask, class: 5},
	{name: "kube-proxy by iptables", rules: kubeProxy, looked: kubeProxyLooked, mask: plan.DefaultMask, class: 5},
	{name: "kube-proxy by nftables", rules: kubeProxyNFT, looked: kubeProxyNFTLooked, mask: plan.DefaultMask, class: 5},
	{name: "flannel beside kube-proxy", rules: flannel + "\n" + strings.ReplaceAll(kubeProxy, "-t nat -A PREROUTING -j", "-t nat -A PREROUTING -s 192.0.2.1 -j"), looked: flannelLooked, mask: plan.DefaultMask, class: 5},
	// Calico overwrites the low bits of the default mask: the packet counts as another workload's.
	{name: "calico, the default mask", rules: calico, looked: calicoLooked, mask: plan.DefaultMask, class: 1},
	{name: "calico, the mask that weir doctor names", rules: calico, looked: calicoLooked, mask: 0xfffe, class: 5, whole: 0x10000},
	{name: "calico and kube-proxy", rules: calico + "\n" + kubeProxy, looked: kubeProxyLooked, mask: 0x3fff, class: 5, whole: 0x10000},
	// Cilium assigns the whole mark (set_identity_mark), so no mask helps where it does.
	{name: "cilium, the default mask", program: 1234<<16 | 0xf00, mask: plan.DefaultMask, class: 1234 & 0x1fff, whole: 0xf00},
	{name: "cilium, the bits that it does not use", program: 1234<<16 | 0xf00, mask: 0xf000, class: 0, whole: 1234<<16 | 0xf00},
}

// TestNeighbours sends a packet from a pod by routing to the uplink past what other products do to
// the mark. The pod's class and their bits arrive, or the class is lost in the way that weir doctor
// warns of; their own rules find what they look for in each case.
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
				overwrite(t, port.Index, n.program) // it was there before Weir
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
			seen := witness(t, uplink.Index, ebpf.AttachTCXEgress)
			box.Run("ping", "-c", "1", "-W", "5", "10.77.0.254")
			got := seen()
			if class := classOf(m.mask, got); class != n.class {
				t.Errorf("class %d at the uplink, want %d (mark %#x)", class, n.class, got)
			}
			if whole := got &^ uint32(n.mask); whole != n.whole {
				t.Errorf("mark %#x beside Weir's bits, want %#x", whole, n.whole)
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

// overwrite attaches a program to a port that assigns the whole mark and lets the packet go on.
func overwrite(t *testing.T, ifindex int, mark uint32) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, AttachType: ebpf.AttachTCXIngress, License: "GPL", Instructions: asm.Instructions{
		asm.LoadImm(asm.R2, int64(mark), asm.DWord),
		asm.StoreMem(asm.R1, skbMark, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R0, -1),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: prog, Attach: ebpf.AttachTCXIngress})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

// classOf returns the class that a mark says.
func classOf(mask plan.Mask, mark uint32) plan.ClassID {
	class, _ := mask.Split(mark)
	return class
}
