// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/hosttest"
)

// other is something of another owner at a hook of the bed's host.
type other struct {
	name string
	tc   string // as tc takes it; "" = a tcx program
	undo string // what takes it away
	nft  string // the family of a table of nftables, whose text is tc: its rules count packets
	// Of a tcx program: where, its verdict, and whether it is put at the head.
	dev     string
	hook    ebpf.AttachType
	verdict int32
	head    bool
	// loses says that the kernel writes a class id into the packets' tc_index there.
	loses bool
	// takes says that it drops a flow before the link's queue, unless a program ends the chain
	// first.
	takes bool
}

const udp = " protocol ip u32 match ip protocol 17 0xff"

// others are a firewall's, an IDS's, a hypervisor's and a CNI plugin's, at port, bridge and link.
var others = []other{
	{name: "a drop at the port", tc: "filter add dev c1 egress pref 500" + udp + " match ip dport 7001 0xffff action drop", undo: "filter del dev c1 egress pref 500"},
	{name: "a mirror at the port", tc: "filter add dev c1 egress pref 400" + udp + " action mirred egress mirror dev ids continue", undo: "filter del dev c1 egress pref 400"},
	{name: "a redirection at the port", tc: "filter add dev c1 egress pref 300" + udp + " match ip dport 7003 0xffff action mirred egress redirect dev ids", undo: "filter del dev c1 egress pref 300"},
	{name: "an accept at the port", tc: "filter add dev c1 egress pref 900" + udp + " action ok", undo: "filter del dev c1 egress pref 900"},
	{name: "a policer at the port", tc: "filter add dev c1 ingress pref 7" + udp + " action police rate 1gbit burst 1m conform-exceed drop/continue", undo: "filter del dev c1 ingress pref 7"},
	{name: "an ingress qdisc with a filter", tc: "filter add dev c2 parent ffff: pref 7" + udp + " action mirred egress mirror dev ids continue", undo: "filter del dev c2 parent ffff: pref 7"},
	{name: "a mirror at the bridge", tc: "filter add dev br0 egress pref 7" + udp + " action mirred egress mirror dev ids continue", undo: "filter del dev br0 egress pref 7"},
	{name: "a mirror at the link", tc: "filter add dev up0 egress pref 6" + udp + " action mirred egress mirror dev ids continue", undo: "filter del dev up0 egress pref 6"},
	{name: "a drop at the link", tc: "filter add dev up0 egress pref 5" + udp + " match ip dport 7001 0xffff action drop", undo: "filter del dev up0 egress pref 5", takes: true},
	{name: "a mirror in a block of devices", tc: "filter add block 22 pref 7" + udp + " action mirred egress mirror dev ids continue", undo: "filter del block 22 pref 7"},
	{name: "a program at the link's tail", dev: "up0", hook: ebpf.AttachTCXEgress, verdict: -1},
	{name: "a tag at the link", tc: "filter add dev up0 egress pref 7" + udp + " match ip dport 7002 0xffff action vlan push id 9", undo: "filter del dev up0 egress pref 7", loses: true},
	{name: "a program at the port's head that ends the chain", dev: "c1", hook: ebpf.AttachTCXEgress, verdict: 0, head: true},
	{name: "a program at the port's tail", dev: "c1", hook: ebpf.AttachTCXEgress, verdict: -1},
	{name: "rules of the bridge by device", nft: "bridge", tc: `chain f { type filter hook forward priority 0; iifname "up0" oifname "c2" udp dport 7001 counter drop; iifname "up0" oifname "c1" udp dport 7001 counter; iifname "weir-ib-up0" counter; }`},
	{name: "rules at the port's egress", nft: "netdev", tc: `chain e { type filter hook egress device "c2" priority 0; udp dport 7002 counter drop; udp dport 7001 counter; }`},
	{name: "rules at what the link receives", nft: "netdev", tc: `chain i { type filter hook ingress device "up0" priority 0; ip daddr 10.77.0.2 udp dport 7002 counter drop; iifname "up0" udp dport 7001 counter; }`},
	{name: "a program that drops at the other port", dev: "c2", hook: ebpf.AttachTCXEgress, verdict: 2},
	{name: "a program at what the port sends that ends the chain", dev: "c1", hook: ebpf.AttachTCXIngress, verdict: 0, head: true},
	{name: "a program at the link's head that ends the chain", dev: "up0", hook: ebpf.AttachTCXEgress, verdict: 0, head: true},
	{name: "a program at what the link receives", dev: "up0", hook: ebpf.AttachTCXIngress, verdict: -1},
}

// placed is one that is there.
type placed struct {
	other
	link  link.Link
	count *ebpf.Map
}

// comes returns the command that puts it there, unless it is a tcx program.
func (o other) comes() []string {
	if o.nft != "" {
		return []string{"nft", "table " + o.table() + " {\n" + o.tc + "\n}"}
	}
	return append([]string{"tc"}, strings.Fields(o.tc)...)
}

// goes returns the command that takes it away.
func (o other) goes() []string {
	if o.nft != "" {
		return []string{"nft", "delete table " + o.table()}
	}
	return append([]string{"tc"}, strings.Fields(o.undo)...)
}

// table names its table of nftables. Two of one family differ in the first letter of their chain.
func (o other) table() string { return o.nft + " theirs_" + o.tc[len("chain "):len("chain ")+1] }

// place puts it there. A clsact, or an ingress qdisc, is where its owner has put it before.
func (b *bed) place(o other, head bool) *placed {
	b.T.Helper()
	if o.tc != "" {
		b.Netns.Run(o.comes()...)
		return &placed{other: o}
	}
	count, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		b.T.Fatal(err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "theirs", Type: ebpf.SchedCLS, License: "GPL", AttachType: o.hook, Instructions: counting(count, o.verdict)})
	if err != nil {
		b.T.Fatal(err)
	}
	defer prog.Close()
	dev, err := net.InterfaceByName(o.dev)
	if err != nil {
		b.T.Fatal(err)
	}
	anchor := link.Tail()
	if head {
		anchor = link.Head()
	}
	l, err := link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: prog, Attach: o.hook, Anchor: anchor})
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { l.Close(); count.Close() })
	return &placed{o, l, count}
}

// counting counts the UDP packets over IPv4 in a map.
func counting(count *ebpf.Map, verdict int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadAbs(12, asm.Half),
		asm.JNE.Imm(asm.R0, 0x0800, "out"),
		asm.LoadAbs(23, asm.Byte),
		asm.JNE.Imm(asm.R0, unix.IPPROTO_UDP, "out"),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, count.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, verdict).WithSymbol("out"),
		asm.Return(),
	}
}

func (p *placed) takeAway(b *bed) {
	if p.tc != "" {
		b.Netns.Run(p.goes()...)
		return
	}
	p.link.Close()
}

var counted = regexp.MustCompile(`counter packets \d+`)

var sentStats = regexp.MustCompile(`Sent \d+ bytes \d+ pkt( \(dropped \d+)?`)

// seen returns what it has counted.
func (p *placed) seen(b *bed) string {
	b.T.Helper()
	if p.nft != "" {
		return fmt.Sprint(counted.FindAllString(b.Netns.Run("nft", "list table "+p.table()), -1))
	}
	if p.tc != "" {
		where := strings.Fields(p.undo)[2:] // filter del ...
		return strings.Join(sentStats.FindAllString(b.Netns.Run(append([]string{"tc", "-s", "filter", "show"}, where...)...), -1), ", ")
	}
	var n uint64
	if err := p.count.Lookup(uint32(0), &n); err != nil {
		b.T.Fatal(err)
	}
	return fmt.Sprint(n)
}

// wires are the test's sockets: each pair of namespaces that talk, on each of four ports.
type wires struct {
	b     *bed
	spots map[string]*netnstest.Netns
	ears  map[string]int // by the spot and port: a socket
}

const (
	firstPort, ports = 7000, 4
	perFlow          = 5 // packets of a burst in each flow
)

func (b *bed) wire() *wires {
	w := &wires{b, map[string]*netnstest.Netns{"10.77.0.1": b.Boxes[0], "10.77.0.2": b.Boxes[1], hosttest.ServerAt: b.Server}, map[string]int{}}
	for at, space := range w.spots {
		for port := firstPort; port < firstPort+ports; port++ {
			err := nsthread.InPath(space.Path(), func() error {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
				if err != nil {
					return err
				}
				w.ears[fmt.Sprint(at, ":", port)] = fd
				return unix.Bind(fd, &unix.SockaddrInet4{Port: port})
			})
			if err != nil {
				b.T.Fatal(err)
			}
		}
	}
	b.T.Cleanup(func() {
		for _, fd := range w.ears {
			unix.Close(fd)
		}
	})
	// Neighbours are known from here on, and for good: one of the others drops the answers to
	// ARP.
	for at := range w.spots {
		for other, space := range w.spots {
			if other != at {
				space.Run("ping", "-q", "-c", "1", at)
				found := strings.Fields(space.Run("ip", "neighbour", "show", "to", at)) // 10.77.0.1 dev eth0 lladdr 02:… REACHABLE
				space.Run("ip", "neighbour", "replace", at, "dev", found[2], "lladdr", found[4], "nud", "permanent")
			}
		}
	}
	return w
}

// burst sends packets in every flow, and returns how many of each have arrived.
func (w *wires) burst() string {
	w.b.T.Helper()
	var order []string
	for _, from := range []string{hosttest.ServerAt, "10.77.0.1", "10.77.0.2"} {
		for _, to := range []string{"10.77.0.1", "10.77.0.2", hosttest.ServerAt} {
			if from != to {
				order = append(order, from+" "+to)
			}
		}
	}
	for range perFlow {
		for _, pair := range order {
			from, to, _ := strings.Cut(pair, " ")
			for port := firstPort; port < firstPort+ports; port++ {
				address := &unix.SockaddrInet4{Port: port, Addr: [4]byte(net.ParseIP(to).To4())}
				if err := unix.Sendto(w.ears[fmt.Sprint(from, ":", port)], []byte(pair), 0, address); err != nil {
					w.b.T.Fatal(err)
				}
			}
		}
	}
	return w.hear()
}

// hear counts what arrives until nothing has for a while.
func (w *wires) hear() string {
	got := map[string]int{}
	text := make([]byte, 100)
	for quiet := time.Now(); time.Since(quiet) < 150*time.Millisecond; time.Sleep(5 * time.Millisecond) {
		for at, fd := range w.ears {
			for {
				n, _, err := unix.Recvfrom(fd, text, 0)
				if err != nil {
					break
				}
				quiet = time.Now()
				got[string(bytes.TrimSpace(text[:n]))+at[strings.LastIndex(at, ":"):]]++
			}
		}
	}
	return fmt.Sprint(got) // in the order of the keys
}
