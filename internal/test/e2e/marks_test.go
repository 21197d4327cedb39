// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/core/event"
	"weir/internal/core/policy"
)

// router is a host that routes for its containers: to an uplink, a tunnel and an isolated network.
type router struct {
	*bed
	sinks   []sink
	packets []packet
	base    uint16 // source port of the next corpus
	proxied int    // socket of a transparent proxy
}

// sink is a network beyond the router: what arrives there is read from the socket.
type sink struct {
	name   string
	ip     net.IP
	socket int
}

// packet is one of the corpus, by UDP.
type packet struct {
	box, sink int
	port      uint16
}

const routedBoxes = 9 // classes 4 and 8 are bits of a widespread VPN

func newRouter(t *testing.T) *router {
	t.Helper()
	r := &router{bed: &bed{t: t, flows: new(uint64), dir: filepath.Join("/run/e2e", "bed"), capacity: policy.Rate(*capacity) * 1e6}, base: 20000}
	mountBPFFS(t)
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(r.dir) })
	r.host = newSpace(t, "host")
	r.host.bridge("br0")
	r.host.run("ip addr add 10.88.254.1/16 dev br0")
	r.nets = []network{{bridge: "br0", uplink: "up0"}}
	for i := range routedBoxes {
		box := newSpace(t, fmt.Sprintf("w%d", i+1))
		r.boxes = append(r.boxes, box)
		r.host.plug("br0", portName(0, i+1), box, "eth0", workloadAt(0, i+1))
		box.run("ip route add default via 10.88.254.1")
	}
	for i, name := range []string{"up0", "vpn", "iso"} {
		r.addSink(name, byte(90+i))
	}
	r.host.run("ip route add 10.91.0.0/24 dev vpn via 10.91.0.2 table 52")
	r.host.run("ip route add local default dev lo table 100")
	r.sh("echo 1 >/proc/sys/net/ipv4/ip_forward")
	r.listen()
	draw := rand.New(rand.NewPCG(45, 1))
	for range 200 {
		r.packets = append(r.packets, packet{draw.IntN(routedBoxes), draw.IntN(len(r.sinks)), []uint16{53, 443, 5001}[draw.IntN(3)]})
	}
	return r
}

// known waits until each container has its device. What of a policy HTB does not hold is no matter
// here.
func (r *router) known(a *agent) {
	r.t.Helper()
	await(r.t, 10*time.Second, "containers known", func() error {
		for i := range r.boxes {
			w, err := a.Workload(context.Background(), fmt.Sprintf("w%d", i+1))
			if err != nil {
				return err
			}
			if w.State == "waiting" || w.State == "unsteered" || len(w.Devices) != 1 {
				return fmt.Errorf("%s is %s with devices %v", w.Name, w.State, w.Devices)
			}
		}
		return nil
	})
}

// sh runs a script on the router.
func (r *router) sh(script string) error {
	var out []byte
	return r.host.do(func() (err error) {
		if out, err = exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
}

func (r *router) addSink(name string, net3 byte) {
	r.t.Helper()
	to := newSpace(r.t, "to-"+name)
	r.host.must("make "+name, r.host.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(to.handle)}))
	r.host.run(fmt.Sprintf("ip addr add 10.%d.0.1/24 dev %s", net3, name))
	to.run(fmt.Sprintf("ip addr add 10.%d.0.3/24 dev eth0", net3)) // 10.x.0.2 has no host, so that nothing answers
	r.host.up(name)
	to.up("eth0")
	s := sink{name: name, ip: net.IPv4(10, net3, 0, 2).To4()}
	mac := to.device("eth0").Attrs().HardwareAddr
	r.host.run(fmt.Sprintf("ip neigh add %v lladdr %v dev %s nud permanent", s.ip, mac, name))
	to.must("listen", to.do(func() (err error) {
		if s.socket, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP))); err == nil {
			err = unix.SetsockoptInt(s.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 1<<22)
		}
		return err
	}))
	r.t.Cleanup(func() { unix.Close(s.socket) })
	r.sinks = append(r.sinks, s)
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// listen opens the socket of the transparent proxy.
func (r *router) listen() {
	r.t.Helper()
	r.host.must("proxy", r.host.do(func() (err error) {
		if r.proxied, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err = unix.SetsockoptInt(r.proxied, unix.SOL_IP, unix.IP_TRANSPARENT, 1); err == nil {
			err = unix.Bind(r.proxied, &unix.SockaddrInet4{Port: 50080})
		}
		return err
	}))
	r.t.Cleanup(func() { unix.Close(r.proxied) })
}

// observe applies rules, sends the corpus, and returns what is to be seen of the rules, of routing,
// of connections and of the packets' ways. The error is that this kernel has no such rules.
func (r *router) observe(rules string) (seen string, err error) {
	r.t.Helper()
	defer func() { r.host.must("forget the rules", r.sh(forget)) }()
	if err := r.sh(rules); err != nil {
		return "", err
	}
	base := r.base
	r.base += uint16(len(r.packets))
	for i, p := range r.packets {
		box := r.boxes[p.box]
		box.must("send", box.do(func() error {
			c, err := net.DialUDP("udp4", &net.UDPAddr{Port: int(base) + i}, &net.UDPAddr{IP: r.sinks[p.sink].ip, Port: int(p.port)})
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Write([]byte("weir"))
			return err
		}))
	}
	time.Sleep(300 * time.Millisecond)
	var text strings.Builder
	for _, s := range r.sinks {
		fmt.Fprintf(&text, "to %s: %v\n", s.name, r.arrived(s.socket, base))
	}
	fmt.Fprintf(&text, "proxied: %d\n", drained(r.proxied, func([]byte) {}))
	fmt.Fprintf(&text, "marks of connections: %v\n", r.connections(base))
	// Comments of iptables-save have the time; handles and ports are not listed.
	for line := range strings.Lines(r.host.run("iptables-save -c") + r.host.run("nft list ruleset") + r.host.run("ip rule")) {
		if !strings.HasPrefix(line, "#") {
			text.WriteString(line)
		}
	}
	for _, mark := range []string{"0", "1", "0x42", "0x10000", "0x40000", "0x80000", "0x200"} {
		for _, s := range r.sinks {
			out := ""
			r.host.must("ip route get", r.host.do(func() error { // an unreachable one is an answer, too
				b, _ := exec.Command("ip", "route", "get", s.ip.String(), "mark", mark).CombinedOutput()
				out = string(b)
				return nil
			}))
			text.WriteString(out)
		}
	}
	return text.String(), nil
}

// arrived returns which packets of the corpus came, by their source port.
func (r *router) arrived(socket int, base uint16) (list []int) {
	drained(socket, func(ip []byte) {
		if len(ip) < 28 || ip[0] != 0x45 || ip[9] != unix.IPPROTO_UDP {
			return
		}
		if n := int(binary.BigEndian.Uint16(ip[20:])) - int(base); n >= 0 && n < len(r.packets) {
			list = append(list, n)
		}
	})
	slices.Sort(list)
	return list
}

// drained reads all that waits at a socket.
func drained(socket int, each func([]byte)) (n int) {
	buffer := make([]byte, 2048)
	for {
		size, _, err := unix.Recvfrom(socket, buffer, 0)
		if err != nil {
			return n
		}
		each(buffer[:size])
		n++
	}
}

// connections returns the marks that are not 0 of the corpus' connections.
func (r *router) connections(base uint16) (list []string) {
	flows, err := r.host.ConntrackTableList(netlink.ConntrackTable, unix.AF_INET)
	if err != nil {
		return []string{"not listed by this kernel"}
	}
	for _, f := range flows {
		if n := int(f.Forward.SrcPort) - int(base); f.Mark != 0 && n >= 0 && n < len(r.packets) {
			list = append(list, fmt.Sprintf("%d: %#x", n, f.Mark))
		}
	}
	slices.Sort(list)
	return list
}

// Rules of other programs do the same to packets with Weir as without: which rule finds which
// packet, what is routed where, what comes through, what connections keep.
func TestRulesOfOthers(t *testing.T) {
	r := newRouter(t)
	r.configure(routedQueues)
	without := map[string]string{}
	for _, p := range products {
		seen, err := r.observe(p.rules)
		if err != nil {
			t.Logf("skipped: %s: %v", p.name, err)
			continue
		}
		without[p.name] = seen
	}
	if len(without) < 8 {
		t.Errorf("this kernel has the rules of %d products only: the test shows little", len(without))
	}
	a := r.start()
	r.known(a)
	for _, p := range products {
		before, known := without[p.name]
		if !known {
			continue
		}
		seen, err := r.observe(p.rules)
		if err != nil {
			t.Fatal(err)
		}
		r.unchanged(p.name, before, seen)
	}
}

const routedQueues = "accept_gaps: true\nworkloads:\n  w3: {discipline: pq, queues: {dns: {match: [{udp: 53}]}, web: {match: [{udp: 443}]}, rest: {}}}\n"

// With bits of the mark as Weir's own, a VPN that has the same ones sees them: weir status says so,
// as long as its rules are there.
func TestMaskOfOthers(t *testing.T) {
	r := newRouter(t)
	vpn := products[0]
	without, err := r.observe(vpn.rules)
	if err != nil {
		t.Skipf("skipped: this kernel has no such rules: %v", err)
	}
	r.configure("mark_mask: 0xffff0000\n" + routedQueues)
	a := r.start()
	r.known(a)
	with, err := r.observe(vpn.rules)
	if err != nil {
		t.Fatal(err)
	}
	if with == without {
		t.Error("the VPN's rules see no bit of Weir's: the test shows nothing")
	}
	r.host.must("set the rules", r.sh(vpn.rules))
	if p := a.problem(event.MarkShared, true); !strings.Contains(p.String(), "0xff0000") {
		t.Errorf("%v", p)
	}
	r.host.must("forget the rules", r.sh(forget))
	a.problem(event.MarkShared, false)
}

// problem waits until an agent has a problem of a kind, or has none, and returns it.
func (a *agent) problem(kind string, there bool) (found event.Fault) {
	a.t.Helper()
	defer func(began time.Time) { a.t.Logf("problem %s: %v after %v", kind, there, time.Since(began)) }(time.Now())
	await(a.t, said, fmt.Sprintf("problem %s: %v", kind, there), func() error {
		status, err := a.Status(context.Background())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(status.Problems, func(p event.Fault) bool { return p.Kind == kind })
		if i >= 0 {
			found = status.Problems[i]
		}
		if (i >= 0) != there {
			return fmt.Errorf("problems %+v", status.Problems)
		}
		return nil
	})
	return found
}

// Where the agent chooses the bits of the mark, others' rules do the same as without Weir; what
// others do with these bits later is said, and the next agent chooses other ones.
func TestMaskChosen(t *testing.T) {
	r := newRouter(t)
	vpn := products[0]
	without, err := r.observe(vpn.rules)
	if err != nil {
		t.Skipf("skipped: this kernel has no such rules: %v", err)
	}
	r.host.must("set the rules", r.sh(vpn.rules))
	r.configure("mark_mask: auto\n" + routedQueues)
	a := r.start()
	r.known(a)
	chosen := func(want string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(r.stateDir(), "mark_mask"))
		if err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("chosen %q (%v), want %s", text, err, want)
		}
	}
	chosen("0xfffe")
	r.host.must("forget the rules", r.sh(forget))
	with, err := r.observe(vpn.rules)
	if err != nil {
		t.Fatal(err)
	}
	r.unchanged(vpn.name, without, with)
	r.host.must("another comes", r.sh("iptables -w -A FORWARD -m mark --mark 0x10/0x10 -j ACCEPT"))
	if p := a.problem(event.MarkShared, true); !strings.Contains(p.Text, "0x10 of Weir's bits 0xfffe") || !strings.Contains(p.Remedy, "start the agent again: it takes 0xfffe0000") {
		t.Errorf("%v", p)
	}
	a.kill()
	a = r.start()
	r.known(a)
	chosen("0xfffe0000")
	r.host.must("all bits are another's", r.sh("nft 'add table ip every; add chain ip every c { type filter hook prerouting priority mangle; }; add rule ip every c meta mark set 7'"))
	if p := a.problem(event.MarkShared, true); !strings.Contains(p.Remedy, "a mask") {
		t.Errorf("%v", p)
	}
	a.kill()
	a = r.start()
	r.known(a)
	if p := a.problem(event.MarkShared, true); !strings.Contains(p.Text, "no run of 4") {
		t.Errorf("%v", p)
	}
}

// ending attaches a tcx program that ends the chain to a device of the router.
func (r *router) ending(name string, hook ebpf.AttachType) (l link.Link) {
	r.t.Helper()
	r.host.must("attach a program", r.host.do(func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "theirs", Type: ebpf.SchedCLS, License: "GPL", AttachType: hook,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		if err != nil {
			return err
		}
		defer prog.Close()
		l, err = link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: prog, Attach: hook, Anchor: link.Head()})
		return err
	}))
	return l
}

// first returns the name of the program that runs first at a device of the router.
func (r *router) first(name string, hook ebpf.AttachType) (found string) {
	r.t.Helper()
	r.host.must("read the programs", r.host.do(func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		all, err := link.QueryPrograms(link.QueryOptions{Target: dev.Index, Attach: hook})
		if err != nil || len(all.Programs) == 0 {
			return err
		}
		prog, err := ebpf.NewProgramFromID(all.Programs[0].ID)
		if err != nil {
			return err
		}
		defer prog.Close()
		info, err := prog.Info()
		if err == nil {
			found = info.Name
		}
		return err
	}))
	return found
}

// weir status names the device in which packets lose their class because of a filter of another
// program, as long as it is there.
func TestFilterOfOthers(t *testing.T) {
	r := newRouter(t)
	r.configure("")
	a := r.start()
	r.known(a)
	// Weir's own, which may be in the same place, stays.
	r.host.must("add a filter", r.sh("tc qdisc add dev w2 clsact 2>/dev/null || true; tc filter add dev w2 ingress pref 7 protocol ip u32 match u32 0 0 flowid 1:5"))
	if p := a.problem(event.ClassLost, true); p.Subject.Name != "w2" || !strings.Contains(p.Text, "the filter u32") || !strings.Contains(p.Remedy, "mark_mask") {
		t.Errorf("%v", p)
	}
	r.host.run("tc filter del dev w2 ingress pref 7 protocol ip u32")
	a.problem(event.ClassLost, false)

	// The kernel sends no notice of tcx programs. One at a port is no matter: Weir's goes
	// first.
	port := r.ending("w3", ebpf.AttachTCXIngress)
	await(t, said, "Weir's program goes first again, and it is said", func() error {
		status, err := a.Status(context.Background())
		if err != nil || status.Events.Open["repaired"] > 0 && r.first("w3", ebpf.AttachTCXIngress) == "weir_mark_port" {
			return err
		}
		return fmt.Errorf("first is %s, events %v", r.first("w3", ebpf.AttachTCXIngress), status.Events.Open)
	})
	bridge := r.ending("br0", ebpf.AttachTCXIngress)
	if p := a.problem(event.ClassLost, true); p.Subject.Name != "br0" || !strings.Contains(p.Text, `the tcx program "theirs"`) || !strings.Contains(p.Remedy, "TCX_NEXT") {
		t.Errorf("%v", p)
	}
	bridge.Close()
	a.problem(event.ClassLost, false)
	port.Close()
}

// weir status names the filter at a workload's device that sees another device than without Weir,
// as long as the link's ingress is steered.
func TestFilterByDevice(t *testing.T) {
	r := newRouter(t)
	r.configureLinks(", ingress: 20mbit", "")
	a := r.start()
	r.known(a)
	last := fmt.Sprintf("w%d", routedBoxes)
	await(t, 20*time.Second, "what the workloads receive is steered", func() error {
		if name := r.first(last, ebpf.AttachTCXEgress); name != "weir_rules_take" {
			return fmt.Errorf("first at %s is %q", last, name)
		}
		return nil
	})
	r.host.must("add a filter", r.sh("tc qdisc add dev w2 clsact 2>/dev/null || true; tc filter add dev w2 egress pref 7 protocol ip u32 match u32 0 0 indev up0 flowid 1:5"))
	if p := a.problem(event.FilterSkipped, true); p.Subject.Name != "w2" || !strings.Contains(p.Text, "u32 pref 7") || !strings.Contains(p.Text, "weir-ib-up0") {
		t.Errorf("%v", p)
	}
	r.host.run("tc filter del dev w2 egress pref 7 protocol ip u32")
	a.problem(event.FilterSkipped, false)
}
