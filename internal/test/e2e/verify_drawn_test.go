// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"weir/internal/host/verify"
)

// rightSetUp is a host on which every path of its workloads is steered.
type rightSetUp struct {
	routed  bool   // the host routes from the workloads' bridge to the link
	bridged bool   // the first workload is behind a bridge of its own
	nested  bool   // the bridge is a workload, too
	device  bool   // the first workload is known by its device
	second  bool   // it has a second interface
	ipv6    bool   // bridged alone
	ingress string // what the link says of it
	policy  string // of the first workload
	link    string // more settings of the link
	own     bool   // it sends other packets meanwhile
	others  bool   // the second one fills the link
}

func drawSetUp(draw *rand.Rand) rightSetUp {
	yes := func() bool { return draw.IntN(2) == 0 }
	one := func(of ...string) string { return of[draw.IntN(len(of))] }
	s := rightSetUp{routed: draw.IntN(3) == 0, bridged: draw.IntN(3) == 0, device: yes(), second: draw.IntN(3) == 0, ipv6: yes(), own: draw.IntN(3) == 0, others: draw.IntN(3) == 0,
		ingress: one("", ", ingress: 20mbit", ", ingress: 20mbit, ingress_local: true"),
		policy:  one("{}", "{weight: 7}", "{max: 1mbit}", "{min: 5mbit, max: 10mbit}", "{max: 300kbit, ingress: {}}", "{weight: 10000}"),
		link:    one("", ", overhead: ethernet", ", overhead: 24", ", reservable: 50%"),
	}
	s.nested = !s.bridged && !s.routed && draw.IntN(3) == 0
	s.ipv6 = s.ipv6 && !s.routed
	if s.ingress == "" {
		s.policy = strings.ReplaceAll(s.policy, ", ingress: {}", "")
	}
	return s
}

// make makes the set-up and its configuration.
func (s rightSetUp) make(t *testing.T) *bed {
	b := newBed(t, 2, 1)
	if s.bridged {
		b.behindBridge(b.boxes[0], "w1")
	}
	if s.second {
		b.host.plug(b.nets[0].bridge, "second", b.boxes[0], "eth1", workloadAt(0, 77))
	}
	gateway := serverAt(0)
	if s.routed {
		gateway = hostAt()
		b.hostSends()
		b.host.run("ip link set up0 nomaster")
		b.srv.run("ip addr flush dev eth0")
		b.srv.run("ip addr add " + overlayServer + "/24 dev eth0")
		b.host.run("ip addr add " + overlayHost + "/24 dev up0")
		b.host.run("ip route add default via " + overlayServer + " dev up0")
		b.host.must("forward", b.host.do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }))
	}
	for i, box := range b.boxes {
		box.knows("eth0", gateway)
		box.run("ip route add default via " + gateway.ip.String() + " dev eth0")
		if i == 0 && s.second {
			box.knows("eth1", gateway)
			box.run("ip route add default via " + gateway.ip.String() + " dev eth1 metric 9")
		}
	}
	if s.ipv6 {
		b.ipv6()
		b.boxes[0].run("ip -6 route add default via " + serverAt(0).ipv6().String() + " dev eth0")
	}
	text := fmt.Sprintf("socket: %s\nstate_dir: %s\ngroup: %s\ndocker: {enabled: false}\naccept_gaps: true\nlinks:\n  - {device: up0, egress: 20mbit%s%s}\nworkloads:\n  w1: %s\nattach:\n",
		b.socket(), b.stateDir(), groupName, s.ingress, s.link, s.policy)
	first := "netns: w1"
	if s.device && !s.second {
		first = "device: w1"
	}
	text += "  - {name: w1, " + first + "}\n  - {name: w2, netns: w2}\n"
	if s.nested {
		text += "  - {name: lan, device: br0}\n"
	}
	b.write(text)
	return b
}

// weir verify raises no alarm where all is right, whatever else the host does: drawn set-ups, of
// which -long tries fifty, or ten in a virtual machine.
func TestVerifyRaisesNoFalseAlarm(t *testing.T) {
	count := 5
	switch {
	case *long && emulated(): // where each takes a minute
		count = 10
	case *long:
		count = 50
	}
	seed := uint64(time.Now().UnixNano())
	draw := rand.New(rand.NewPCG(seed, 0))
	for n := range count {
		s := drawSetUp(draw)
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			t.Logf("seed %d: %+v", seed, s)
			b := s.make(t)
			a := b.start()
			await(t, 40*time.Second, "steered", func() error {
				for _, name := range []string{"w1", "w2"} {
					w, err := a.Workload(t.Context(), name)
					if err != nil {
						return err
					}
					if w.State != "active" {
						return fmt.Errorf("%s is %s: %s", name, w.State, w.Note)
					}
				}
				return nil
			})
			b.well(a)
			b.capacity = 20e6
			if s.own {
				b.udp(0, 1, 0.01)
			}
			if s.others {
				b.flood(0, 2, 1.2)
			}
			lines, code := b.verified("w1")
			right := 0
			for path, l := range lines {
				if l.Result == verify.NotSteered {
					t.Errorf("%s: %+v", path, l)
				}
				if l.Result == verify.OK {
					right++
				} else {
					t.Logf("%s: %s, %s", path, l.Result, l.Why)
				}
			}
			if code != 0 || right == 0 {
				t.Errorf("exit code %d, %d of %d paths are proved", code, right, len(lines))
			}
		})
	}
}
