// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/api"
)

// timeWays are about when, not how. The tests that they name try them.
var timeWays = []way{
	{name: "the first packets", kinds: []kind{onPort}, how: "frames from the moment on that eth0 is up, while an agent runs", end: charged, elsewhere: "TestFirstPackets"},
	{name: "no agent", kinds: everyKind, how: "a workload that begins while no agent runs", end: notHeld, elsewhere: "TestFirstPackets",
		condition: "until an agent runs, it is the host's. What the last agent knew is held meanwhile"},
	{name: "a device that outlives its workload", kinds: []kind{onPort}, how: "a pod ends, and its device is in a namespace that lasts", end: charged, elsewhere: "TestDeviceOutlivesItsPod"},
	{name: "the agent's restart", kinds: []kind{onPort}, how: "a device that was moved while no agent ran", end: charged, elsewhere: "TestDeviceThatIsMovedAway"},
	{name: "a first process elsewhere", kinds: ownNetwork, how: "the first process of a container leaves its namespace before the agent sees it (`unshare -Urn`)", end: charged, elsewhere: "TestRealProcessElsewhere"},
	{name: "a shared namespace", kinds: []kind{onPort}, how: "a second workload in the namespace of another", end: refused, elsewhere: "TestSharedNamespace"},
}

// eager sends frames from eth0 as soon as that is up, one each ms, until stdin ends, and prints
// how many it were.
func eager(args []string) error {
	var number int
	if _, err := fmt.Sscan(args[0], &number); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		return err
	}
	ended := stdinEnded()
	fmt.Println("here")
	packet, sent := datagram(workloadAt(0, number), serverAt(0)), 0
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		select {
		case <-ended:
			fmt.Println(sent)
			return nil
		default:
		}
		if dev, err := net.InterfaceByName("eth0"); err == nil && dev.Flags&net.FlagRunning != 0 {
			if unix.Sendto(fd, packet, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index}) == nil {
				sent++
			}
		}
	}
}

// appears makes namespace i, which sends as soon as it can.
func (b *bed) appears(name string, i int) *process {
	b.t.Helper()
	box := newSpace(b.t, name)
	p := launch(box, "eager", fmt.Sprint(i))
	if _, err := p.out.ReadString('\n'); err != nil {
		b.t.Fatal(err)
	}
	b.plugBox(box, 0, i)
	return p
}

// How many packets of a workload are the host's: those before the agent knows of its device,
// and all that it sends until an agent runs.
func TestFirstPackets(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("  - {name: first, netns: first}\n  - {name: second, netns: second}\n")
	a := b.start()
	b.steered(a)
	hosts := func() uint64 { return class(b.counters(0), 0).EnqueuedPackets }
	before := hosts()
	p := b.appears("first", 2)
	a.active("first")
	<-time.After(time.Second)
	sent := p.stop()
	t.Logf("with an agent, %d of %d packets are the host's (one each ms)", hosts()-before, sent)
	if late := hosts() - before; late > 100 || sent < 200 {
		t.Errorf("%d of %d packets are the host's", late, sent)
	}

	a.kill()
	before = hosts()
	p = b.appears("second", 3)
	<-time.After(time.Second)
	without := hosts() - before
	if without < 200 {
		t.Errorf("without an agent %d packets are the host's; docs/security.md says all are", without)
	}
	begin := time.Now()
	a = b.start()
	a.active("second")
	t.Logf("without an agent %d packets are the host's; %.2f s after the start of one none is", without, time.Since(begin).Seconds())
	before = hosts()
	<-time.After(time.Second)
	if late := hosts() - before; late > 0 {
		t.Errorf("%d packets more are the host's", late)
	}
	p.stop()
}

// active waits until a workload has a device.
func (a *agent) active(name string) {
	a.t.Helper()
	await(a.t, 5*time.Second, name+" active", func() error {
		w, err := a.Workload(context.Background(), name)
		if err == nil && w.State != "active" {
			err = fmt.Errorf("it is %s", w.State)
		}
		return err
	})
}

// Two workloads cannot have one namespace: by weir attach the second is refused, in weir.yaml it
// is named as such, and the packets are the first one's.
func TestSharedNamespace(t *testing.T) {
	b := newBed(t, 1, 1)
	b.configure("  - {name: wtwin, netns: w1}\nworkloads: {w1: {max: 10%}}\n")
	a := b.start()
	b.steered(a)
	if _, err := a.Attach(context.Background(), api.AttachRequest{Name: "third", Netns: "w1"}, false); err == nil || !strings.Contains(err.Error(), "belongs to workload w1") {
		t.Errorf("weir attach: %v", err)
	}
	if twin := a.workload("wtwin"); twin.State != "refused" || !strings.Contains(twin.Note, "belongs to w1 already") {
		t.Errorf("twin is %s, %q", twin.State, twin.Note)
	}
	b.flood(0, 1, 0.9)
	b.warmUp()
	b.same("the first one's", b.rates(0, 2*time.Second), []float64{0.1 * float64(b.capacity) / 1e6}, 0.01)
}
