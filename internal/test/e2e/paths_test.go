// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/policy"
)

// said is how soon after a change of the host weir has to say what is not steered.
const said = 2 * time.Second

// past waits until the agent says that traffic of a workload is not steered, in status and at the
// workload, with words of the reason and the remedy.
func (b *bed) past(a *agent, name string, words ...string) {
	b.t.Helper()
	began := time.Now()
	defer func() { b.t.Logf("that %s is not steered is said after %v", name, time.Since(began)) }()
	await(b.t, said, name+" is not steered", func() error {
		status, err := a.Status(context.Background())
		if err != nil {
			return err
		}
		for _, p := range status.Problems {
			if p.Kind == "not-steered" && p.Subject.Name == name {
				w := a.workload(name)
				for _, word := range words {
					if !strings.Contains(p.String(), word) || !strings.Contains(w.Note, word) {
						return fmt.Errorf("%q is missing in %q, or in the note %q", word, p.String(), w.Note)
					}
				}
				if w.State == "active" {
					return errors.New("the workload is active")
				}
				return nil
			}
		}
		return fmt.Errorf("problems: %v", status.Problems)
	})
}

// well waits for longer than a look takes and fails if anything is not steered.
func (b *bed) well(a *agent) {
	b.t.Helper()
	time.Sleep(said)
	status, err := a.Status(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range status.Problems {
		b.t.Errorf("a problem where there is none: %s", p)
	}
}

// attach writes the configuration with one link, both of whose directions are steered, and
// attachments as in weir.yaml.
func (b *bed) attach(link string, attachments ...string) {
	b.t.Helper()
	text := fmt.Sprintf("socket: %s\nstate_dir: %s\ngroup: %s\ndocker: {enabled: false}\nlinks:\n  - {device: %s, egress: %dbit, ingress: %dbit}\nattach:\n",
		b.socket(), b.stateDir(), groupName, link, b.capacity, b.capacity)
	for _, at := range attachments {
		text += "  - {" + at + "}\n"
	}
	b.write(text)
}

// sent returns how many packets the classes of a workload have sent, up and down.
func (b *bed) sent(a *agent, name string) (up, down uint64) {
	b.t.Helper()
	for _, l := range a.workload(name).Links {
		if l.Direction == string(policy.Ingress) {
			down += l.SentPackets
		} else {
			up += l.SentPackets
		}
	}
	return up, down
}

// counted has a namespace ping the server, and fails unless each packet counts once in each
// direction, at one workload.
func (b *bed) counted(a *agent, from *space, name string, others ...string) {
	b.t.Helper()
	const pings = 50
	time.Sleep(1100 * time.Millisecond) // counters are read once a second
	up, down := b.sent(a, name)
	before := map[string][2]uint64{}
	for _, other := range others {
		u, d := b.sent(a, other)
		before[other] = [2]uint64{u, d}
	}
	from.run(fmt.Sprintf("ping -q -c %d -i 0.01 -s 400 %s", pings, serverAt(0).ip))
	await(b.t, 5*time.Second, "counters of "+name, func() error {
		u, d := b.sent(a, name)
		if u-up != pings || d-down != pings {
			return fmt.Errorf("%d packets up and %d down are counted, %d of each were sent", u-up, d-down, pings)
		}
		return nil
	})
	for _, other := range others {
		if u, d := b.sent(a, other); [2]uint64{u, d} != before[other] {
			b.t.Errorf("packets of %s count as those of %s: up and down %d %d, before %v", name, other, u, d, before[other])
		}
	}
}

// A bridge whose port leads out is no link: that is said, with the port to name.
func TestBridgeAsLink(t *testing.T) {
	b := newBed(t, 1, 1)
	b.attach(b.nets[0].bridge, "name: w1, netns: w1")
	a := b.start()
	b.past(a, "w1", "it is a port of the bridge br0", "name the port that leads out as the link instead of br0: up0")
	b.attach(b.nets[0].uplink, "name: w1, netns: w1")
	b.steered(a)
	await(t, 10*time.Second, "well with the port", func() error {
		if w := a.workload("w1"); w.State != "active" || w.Note != "" {
			return errors.New(w.State + " " + w.Note)
		}
		return nil
	})
	b.well(a)
}

// behindBridge plugs a workload into a bridge of its own, which a pair connects to the uplink's:
// the port of the workload is called tap, the pair fwln and fwpr.
func (b *bed) behindBridge(box *space, tap string) {
	b.t.Helper()
	if _, err := b.host.LinkByName("fwbr"); err != nil {
		b.host.bridge("fwbr")
		b.host.run("ip link add fwln type veth peer name fwpr")
		b.host.run("ip link set fwln master fwbr up")
		b.host.run("ip link set fwpr master " + b.nets[0].bridge + " up")
	}
	b.host.run("ip link set " + tap + " master fwbr")
}

// takenAt says whether Weir takes what leaves the host by a device: by a tcx program, or by a
// filter where the kernel has none.
func (b *bed) takenAt(device string) error {
	dev, err := b.host.LinkByName(device)
	if err != nil {
		return err
	}
	if text := b.host.run("tc filter show dev " + device + " egress"); !strings.Contains(text, "weir") && b.tcxPrograms(dev.Attrs().Index, ebpf.AttachTCXEgress) == 0 {
		return errors.New("no program or filter of Weir's at " + device + ": " + text)
	}
	return nil
}

// A guest behind a bridge of its own and a pair counts once in both directions; two behind one such
// bridge are said not to be steered for ingress.
func TestSecondBridge(t *testing.T) {
	b := newBed(t, 2, 1)
	b.behindBridge(b.boxes[0], "w1")
	b.attach(b.nets[0].uplink, "name: vm, device: w1", "name: w2, netns: w2")
	a := b.start()
	await(t, 20*time.Second, "the guest is taken at the pair", func() error {
		return b.takenAt("fwpr")
	})
	b.well(a)
	b.counted(a, b.boxes[0], "vm", "w2")
	b.behindBridge(b.boxes[1], "w2")
	b.past(a, "vm", "ingress not steered by link up0", "bridge br0", "attach fwpr in place of w1")
	b.past(a, "w2", "ingress not steered by link up0")
}

// A bridge that is a workload, with a port that is another one: each packet counts once, at the
// port if it passes that.
func TestNestedPorts(t *testing.T) {
	b := newBed(t, 2, 1)
	b.attach(b.nets[0].uplink, "name: lan, device: br0", "name: w1, netns: w1")
	a := b.start()
	await(t, 20*time.Second, "the bridge is taken at its other port", func() error {
		return b.takenAt("w2")
	})
	b.well(a)
	b.counted(a, b.boxes[0], "w1", "lan")
	b.counted(a, b.boxes[1], "lan", "w1")
}

// A container on an overlay network and on a bridge of the host: the overlay is said not to be
// steered. A namespace with nothing else waits, and that is a problem too. An engine inside of a
// container is neither.
func TestOverlay(t *testing.T) {
	b := newBed(t, 1, 1)
	other, out := newSpace(t, "overlay"), newSpace(t, "outside")
	other.run("ip link add ovup type veth peer name eth0 netns outside")
	b.configure("")
	a := b.start()
	b.steered(a)
	newSpace(t, "inner")
	b.boxes[0].run("ip link add vinner type veth peer name eth0 netns inner")
	b.well(a)
	other.run("ip link add vov type veth peer name ov0 netns w1")
	b.past(a, "w1", "the other end of its ov0 is in another network namespace")
	b.boxes[0].delete("ov0")
	await(t, 10*time.Second, "well without the overlay", func() error {
		if w := a.workload("w1"); w.State != "active" || w.Note != "" {
			return errors.New(w.State + " " + w.Note)
		}
		return nil
	})
	b.weir("attach", "alone", "--netns", out.name)
	b.past(a, "alone", "no veth or netkit pair of this host leads into", "eth0 (veth)")
}

// What an eBPF data plane carries into a workload past its port is said, and not what routing
// carries.
func TestPastThePort(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "")
	a := b.start()
	b.steered(a)
	ping := func(n int) { b.srv.run(fmt.Sprintf("ping -q -c %d -i 0.005 %s", n, workloadAt(0, 1).ip)) }
	ping(200)
	b.well(a)
	defer b.carryPast(1)()
	flow := b.srv.pings(workloadAt(0, 1))
	defer flow()
	b.past(a, "w1", "ingress not steered by link up0: packets get into it without passing w1", "have the data plane route by the kernel")
}

// Of many workloads that receive nothing, one that packets are carried into past its port is found
// within two seconds, and so is one whose namespace gets a way past the links, also where what
// changes is behind it.
func TestManyQuietWorkloads(t *testing.T) {
	const many = 100
	b := newBed(t, many, 1)
	b.configureLinks(fmt.Sprintf(", ingress: %dbit", b.capacity), "")
	a := b.start()
	await(t, time.Minute, "the last workload", func() error {
		w, err := a.Workload(context.Background(), fmt.Sprintf("w%d", many))
		if err == nil && w.State != "active" {
			err = errors.New(w.State)
		}
		return err
	})
	b.steered(a)
	b.well(a)
	other := newSpace(t, "overlay")
	newSpace(t, "outside")
	for _, i := range []int{many, 1, many / 2} {
		name := fmt.Sprintf("w%d", i)
		other.run("ip link add vov type veth peer name ov0 netns " + name)
		time.Sleep(said) // it leads nowhere else yet
		other.run("ip link add ovup type veth peer name eth0 netns outside")
		b.past(a, name, "the other end of its ov0 is in another network namespace")
		other.delete("vov")
		other.delete("ovup")
		await(t, 10*time.Second, "well without the overlay", func() error {
			if w := a.workload(name); w.State != "active" || w.Note != "" {
				return errors.New(w.State + " " + w.Note)
			}
			return nil
		})
	}
	for _, i := range []int{1, many / 3, many} {
		stop := b.carryPast(i)
		end := b.srv.pings(workloadAt(0, i))
		b.past(a, fmt.Sprintf("w%d", i), "packets get into it without passing")
		end()
		stop()
	}
}

// pings pings an address 100 times a second until stop is called.
func (s *space) pings(to endpoint) (stop func()) {
	s.t.Helper()
	cmd := exec.Command("ping", "-q", "-i", "0.01", to.ip.String())
	s.start(cmd)
	return func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
}
