// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// kindOfLink is a kind of device that carries a host's traffic out, made of the cable up0 between
// host and server; "second" is another cable.
type kindOfLink struct {
	name        string
	host, srv   []string // commands that make link0 and its counterpart eth0; the server's cable is cable0
	routed      bool     // a bridge cannot have it as a port, so that the host routes into it
	port        string   // of the workloads' bridge, where that is not link0
	second      bool
	made        func(b *kindBed) // after the commands
	always      bool             // also without -long
	comesUp     time.Duration    // more than other kinds
	underStress func(k *kindBed)
}

// overlay are the addresses of the two ends below tunnels.
const (
	overlayHost   = "10.66.0.1"
	overlayServer = "10.66.0.2"
)

func kindsOfLinks() []kindOfLink {
	bond := func(mode string, always bool) kindOfLink {
		make := func(kind string, ports ...string) (list []string) {
			list = []string{"ip link add BOND type " + kind}
			for _, port := range ports {
				list = append(list, "ip link set "+port+" down", "ip link set "+port+" master BOND", "ip link set "+port+" up")
			}
			return list
		}
		k := kindOfLink{name: "bond, " + mode, second: true, always: always, underStress: (*kindBed).slavesFail}
		kind := "bond mode " + mode + " miimon 50"
		k.host, k.srv = make(kind, "up0", "up0b"), make(kind, "cable0", "cable0b")
		switch mode {
		case "802.3ad":
			k.comesUp = 5 * time.Second // of LACP
		case "balance-tlb", "balance-alb":
			k.srv = make("bridge", "cable0", "cable0b") // a switch that knows nothing of the bond
		case "broadcast": // each packet comes by both cables: one counts
			k.srv = make("bond mode active-backup miimon 50", "cable0", "cable0b")
		}
		return k
	}
	tunnel := func(name, kind string, routed bool) kindOfLink {
		ends := " local %s remote %s dev %s"
		return kindOfLink{name: name, routed: routed,
			host: []string{"ip addr add " + overlayHost + "/24 dev up0", "ip link add link0 type " + kind + fmt.Sprintf(ends, overlayHost, overlayServer, "up0")},
			srv:  []string{"ip addr add " + overlayServer + "/24 dev cable0", "ip link add eth0 type " + kind + fmt.Sprintf(ends, overlayServer, overlayHost, "cable0")}}
	}
	return []kindOfLink{
		bond("active-backup", true), bond("balance-rr", false), bond("balance-xor", false), bond("802.3ad", false), bond("balance-tlb", false), bond("balance-alb", false), bond("broadcast", false),
		team("roundrobin"), team("activebackup"),
		{name: "VLAN", always: true, host: []string{"ip link add link up0 name link0 type vlan id 7"}, srv: []string{"ip link add link cable0 name eth0 type vlan id 7"}},
		{name: "QinQ", host: []string{"ip link add link up0 name outer type vlan proto 802.1ad id 5", "ip link set outer up", "ip link add link outer name link0 type vlan id 7"},
			srv: []string{"ip link add link cable0 name outer type vlan proto 802.1ad id 5", "ip link set outer up", "ip link add link outer name eth0 type vlan id 7"}},
		{name: "macvlan", host: []string{"ip link add link up0 name link0 type macvlan mode passthru"}, srv: []string{"ip link add link cable0 name eth0 type macvlan mode passthru"}},
		tunnel("VXLAN", "vxlan id 7 dstport 4789", false), tunnel("gretap", "gretap", false),
		tunnel("GRE", "gre", true), tunnel("IP in IP", "ipip", true),
		{name: "ipvlan, l2", routed: true, host: []string{"ip link add link up0 name link0 type ipvlan mode l2"}, srv: renamed},
		{name: "ipvlan, l3", routed: true, host: []string{"ip route add " + serverAt(0).ip.String() + "/32 dev up0", "ip link add link up0 name link0 type ipvlan mode l3"}, srv: renamed,
			made: func(b *kindBed) { b.host.knows("up0", endpoint{serverAt(0).ip, serverAt(0).mac}) }},
		{name: "netkit", host: []string{"ip link add link0 type netkit mode l2 peer name eth0 netns srv"}},
		{name: "tap", made: relayed},
		{name: "IFB", port: "up0", srv: renamed, host: []string{"ip link add link0 type ifb", "tc qdisc add dev up0 clsact",
			"tc filter add dev up0 egress matchall action mirred egress redirect dev link0"}},
		{name: "PPPoE", routed: true, made: (*kindBed).dial},
		{name: "WireGuard", routed: true, made: (*kindBed).keys,
			host: []string{"ip addr add " + overlayHost + "/24 dev up0", "ip link add link0 type wireguard"},
			srv:  []string{"ip addr add " + overlayServer + "/24 dev cable0", "ip link add eth0 type wireguard"}},
	}
}

// kindBed is a bed whose uplink is of a kind.
type kindBed struct {
	*bed
	kind  kindOfLink
	agent *agent
}

// lacks skips the test if this kernel does not have the kind.
func (k kindOfLink) lacks(t *testing.T, command string, out []byte, err error) {
	t.Helper()
	lacking := []string{"Unknown device type", "Operation not supported", "Garbage instead of arguments", "TC classifier not found", "Could not process rule: No such file or directory"} // the third of an older ip
	if err != nil && slices.ContainsFunc(lacking, func(text string) bool { return strings.Contains(string(out), text) }) {
		t.Skipf("skipped: this kernel has no such device: %s: %s", command, out)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}

// newKindBed makes the link. The bridge of the workloads has it as its port, or the host routes
// into it.
func newKindBed(t *testing.T, k kindOfLink) *kindBed {
	b := &kindBed{bed: newBed(t, 2, 1), kind: k}
	b.srv.run("ip addr flush dev eth0")
	b.srv.rename("eth0", "cable0")
	b.host.run("ip link set up0 nomaster")
	if k.second {
		b.host.run("ip link add up0b type veth peer name cable0b netns " + b.srv.name)
	}
	for s, commands := range map[*space][]string{b.host: k.host, b.srv: k.srv} {
		for _, command := range commands {
			command = strings.ReplaceAll(command, "BOND", map[*space]string{b.host: "link0", b.srv: "eth0"}[s])
			args := strings.Fields(command)
			var out []byte
			err := s.do(func() (err error) {
				out, err = exec.Command(args[0], args[1:]...).CombinedOutput()
				return err
			})
			k.lacks(t, command, out, err)
		}
	}
	if k.made != nil {
		k.made(b)
	}
	b.join()
	b.nets[0].uplink = "link0"
	return b
}

// join connects the workloads' bridge and the server by the link.
func (b *kindBed) join() {
	server := serverAt(0)
	if !b.kind.routed {
		b.srv.run("ip link set eth0 address " + server.mac.String())
	}
	b.srv.run("ip link set eth0 up")
	b.host.run("ip link set link0 up")
	b.srv.run("ip addr add " + server.ip.String() + "/16 dev eth0")
	if !b.kind.routed {
		port := cmp.Or(b.kind.port, "link0")
		b.host.run("ip link set " + port + " master br0")
		b.host.run("bridge fdb replace " + server.mac.String() + " dev " + port + " master static")
		for i := range b.boxes {
			b.srv.knows("eth0", workloadAt(0, i+1))
		}
		return
	}
	b.hostSends()
	b.host.must("forward", b.host.do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	b.host.run("ip route replace " + server.ip.String() + "/32 dev link0")
	if mac := b.srv.device("eth0").Attrs().HardwareAddr; len(mac) == len(server.mac) {
		b.host.knows("link0", endpoint{server.ip, mac})
	}
	for _, box := range b.boxes {
		box.knows("eth0", endpoint{server.ip, hostAt().mac})
	}
}

// received returns the payload that the server receives of each stream, in Mbit/s.
func (b *kindBed) received(window time.Duration, flows ...flow) (rates []float64) {
	b.t.Helper()
	before, began := b.arrivalsOf(flows), time.Now()
	time.Sleep(window)
	after, took := b.arrivalsOf(flows), time.Since(began)
	for i := range flows {
		rates = append(rates, float64(after[i].Packets-before[i].Packets)*payload*8/took.Seconds()/1e6)
	}
	return rates
}

// divided fails unless the link is full and divided 1 to 3.
func (b *kindBed) divided(when string, flows ...flow) {
	b.t.Helper()
	rates := b.received(2*time.Second, flows...)
	for try := 1; !onBPF() && try < 4 && slices.Max(rates) < 0.7*float64(b.capacity)/1e6; try++ { // the senders had no CPU
		rates = b.received(2*time.Second, flows...)
	}
	link := float64(b.capacity) / 1e6
	b.t.Logf("%-24s %s of payload", when+":", inMbit(rates))
	if sum, ratio := rates[0]+rates[1], rates[1]/rates[0]; sum < 0.9*link || sum > link || ratio < 2.85 || ratio > 3.15 {
		b.t.Errorf("%s: %.2f of %.2f Mbit/s of payload arrive, the second has %.2f times what the first has, want 3", when, sum, link, ratio)
	}
}

// Links of all kinds are divided by weights, and belong to nothing of Weir's when it is cleaned up.
func TestKindsOfLinks(t *testing.T) {
	for _, k := range kindsOfLinks() {
		t.Run(k.name, func(t *testing.T) {
			if !k.always && !*long {
				t.Skip("skipped: with -long alone")
			}
			b := newKindBed(t, k)
			b.configure("workloads:\n  w2: {weight: 3}\n")
			time.Sleep(k.comesUp)
			before := b.traces()
			b.agent = b.start()
			b.steered(b.agent)
			flows := []flow{b.flood(0, 1, 0.6), b.flood(0, 2, 0.9)}
			b.warmUp()
			b.divided("as it is", flows...)
			b.healthy()
			if k.underStress != nil {
				k.underStress(b)
				b.divided("afterwards", flows...)
			}
			if text := b.linkError(b.agent, false); text != "" {
				t.Error(text)
			}
			b.agent.stop()
			b.weir("cleanup", "--config", b.configFile())
			b.asBefore("cleanup", before)
		})
	}
}

// slavesFail takes cables of a bond away, under load: one has no carrier, comes back, is taken out
// of the bond and put into it again. The bond's qdisc is the same one, and the agent does not speak
// of it.
func (b *kindBed) slavesFail() {
	b.host.run("tc qdisc add dev up0 root handle 9: pfifo limit 100")
	if text := b.cli("doctor", "--config", b.configFile()).stdout; !strings.Contains(text, "up0: pfifo 9:") || !strings.Contains(text, "tc qdisc del dev up0 root") {
		b.t.Errorf("weir doctor does not name the qdisc of a port of the bond:\n%s", text)
	}
	b.host.run("tc qdisc del dev up0 root")
	qdisc, logged := b.rootQdisc(0), len(b.agent.log.String())
	settle := func() { time.Sleep(500*time.Millisecond + b.kind.comesUp) }
	b.srv.down("cable0")
	settle()
	b.srv.up("cable0")
	settle()
	b.host.run("ip link set up0b nomaster")
	settle()
	b.host.run("ip link set up0b down")
	b.host.run("ip link set up0b master link0")
	b.host.run("ip link set up0b up")
	settle()
	if now := b.rootQdisc(0); now != qdisc {
		b.t.Errorf("the bond had %q, has %q", qdisc, now)
	}
	for line := range strings.Lines(b.agent.log.String()[logged:]) {
		if !strings.Contains(line, "event=drops") { // of the floods
			b.t.Errorf("the agent logs %s", line)
		}
	}
}

// What a link receives counts as what it sends: with the tags of its VLANs, and without an Ethernet
// header where it has none.
func TestFramesOfALink(t *testing.T) {
	each := map[string]uint64{"VLAN": frame + 4, "QinQ": frame + 8, "VXLAN": frame, "IP in IP": frame - 14, "WireGuard": frame - 14,
		"netkit": frame, "tap": frame, "PPPoE": frame - 14}
	for _, k := range kindsOfLinks() {
		want := each[k.name]
		if want == 0 {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			b := newKindBed(t, k)
			b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "")
			a := b.start()
			b.steered(a)
			if !onBPF() {
				t.Skip("skipped: HTB's counters have what the kernel counts")
			}
			receiver := launch(b.boxes[0], "receive")
			receiver.read()
			if k.routed {
				b.srv.run("ip route replace " + workloadAt(0, 1).ip.String() + "/32 dev eth0")
			}
			down := launch(b.srv, "udp", fmt.Sprintf("%s:%d", workloadAt(0, 1).ip, udpPort), "900", "2000000", "40", fmt.Sprint(payload), "0")
			up := b.udp(0, 1, 0.1)
			time.Sleep(3 * time.Second)
			down.stop()
			b.settle(up)
			time.Sleep(1500 * time.Millisecond) // counters are read once a second
			for _, l := range a.workload("w1").Links {
				if l.SentPackets < 100 || l.SentBytes/l.SentPackets < want-1 || l.SentBytes/l.SentPackets > want {
					t.Errorf("%s: %d bytes of %d packets are counted, %.1f of each, want %d", l.Direction, l.SentBytes, l.SentPackets, float64(l.SentBytes)/float64(l.SentPackets), want)
				}
			}
		})
	}
}

// A flow table of nftables forwards what the host would route, in software and past the rules of
// its firewall. It does not pass Weir by: in both directions the far end receives what the
// workloads' classes have sent, and the link is full and divided 1 to 3.
func TestFlowTable(t *testing.T) {
	b := newKindBed(t, kindOfLink{name: "veth", routed: true, srv: renamed, host: []string{"ip link set up0 down", "ip link set up0 name link0"}})
	for i, box := range b.boxes {
		b.srv.knows("eth0", endpoint{workloadAt(0, i+1).ip, b.host.device("link0").Attrs().HardwareAddr})
		launch(box, "receive").read()
	}
	b.host.run("nft add table inet f")
	table := "nft add flowtable inet f ft { hook ingress priority 0 ; devices = { w1 , w2 , link0 } ; }"
	var out []byte
	err := b.host.do(func() (err error) {
		out, err = exec.Command("nft", strings.Fields(table)[1:]...).CombinedOutput()
		return err
	})
	b.kind.lacks(t, table, out, err)
	b.host.run("nft add chain inet f onward { type filter hook forward priority 0 ; }")
	b.host.run("nft add rule inet f onward ip protocol tcp counter flow add @ft")
	b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "workloads:\n  w2: {weight: 3, ingress: {weight: 3}}\n")
	b.agent = b.start()
	b.steered(b.agent)
	counts := func(direction string) (each [2]float64) {
		for i := range b.boxes {
			for _, l := range b.agent.workload(fmt.Sprintf("w%d", i+1)).Links {
				if l.Direction == direction {
					each[i] = float64(l.SentBytes)
				}
			}
		}
		return each
	}
	const seconds = 5
	divided := func(direction string, far func() float64) {
		t.Helper()
		b.warmUp()
		time.Sleep(1100 * time.Millisecond) // counters are read once a second
		before, arrived := counts(direction), far()
		time.Sleep(seconds * time.Second)
		after := counts(direction)
		arrived = far() - arrived
		one, two := after[0]-before[0], after[1]-before[1]
		t.Logf("%s: %.2f / %.2f Mbit/s by Weir's counters, %.2f arrive", direction, one*8/seconds/1e6, two*8/seconds/1e6, arrived*8/seconds/1e6)
		full := float64(b.capacity) * seconds / 8
		if one+two < 0.95*full || arrived < 0.95*(one+two) || arrived > 1.05*(one+two) || two/one < 2.85 || two/one > 3.15 {
			t.Errorf("%s: %.0f and %.0f bytes are counted and %.0f arrived, the link takes %.0f", direction, one, two, arrived, full)
		}
	}
	var senders []*process
	for i := range b.boxes {
		senders = append(senders, b.tcps(0, i+1, 4))
	}
	divided("egress", func() float64 { return float64(b.srv.device("eth0").Attrs().Statistics.RxBytes) })
	for _, s := range senders {
		s.stop()
	}
	for i := range b.boxes {
		launch(b.srv, "tcp", fmt.Sprintf("%s:%d", workloadAt(0, i+1).ip, tcpPort), "4")
	}
	divided("ingress", func() (sum float64) {
		for _, box := range b.boxes {
			sum += float64(box.device("eth0").Attrs().Statistics.RxBytes)
		}
		return sum
	})
	b.healthy()
	var passed uint64
	chain := b.host.run("nft list chain inet f onward")
	if _, err := fmt.Sscanf(chain[strings.Index(chain, "counter packets"):], "counter packets %d", &passed); err != nil {
		t.Fatalf("%v: %s", err, chain)
	}
	if t.Logf("%d packets passed the firewall's chain", passed); passed > 1000 {
		t.Errorf("%d packets passed the firewall's chain: the flow table forwards nothing", passed)
	}
}
