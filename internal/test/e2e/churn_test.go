// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/core/policy"
)

// Namespaces come and go while two workloads send all they can. The two keep
// their shares, each newcomer's packets are its own from the first, and nothing
// is left of those that are gone.
func TestChurn(t *testing.T) {
	namespaces, every := 24, 250*time.Millisecond
	if *long {
		namespaces, every = 200, 300*time.Millisecond
	}
	b := newBed(t, 2, 1)
	const fromFile = 3 // namespaces that the configuration names and that come and go
	guests := "{max: 2%}"
	if onBPF() {
		guests = "{max: 2%, discipline: fifo}" // CoDel would drop some
	}
	more := "workloads:\n  w2: {weight: 2}\n  \"guest-*\": " + guests + "\n"
	b.configure(guestsInFile(fromFile) + more)
	a := b.start()
	b.steered(a)
	b.come(a, 0, fromFile).leave() // whatever is made once is made
	was := b.agentAtRest(a, 2+fromFile)

	b.flood(0, 1, 0.5)
	b.flood(0, 2, 0.8)
	b.warmUp()
	ideal := b.ideal(policy.Policy{Weight: 1}, policy.Policy{Weight: 2})
	b.same("before the churn", b.full(0, 2*time.Second), ideal, unchanged)
	done := make(chan []float64)
	length := time.Duration(namespaces) * every
	go func() { done <- b.rates(0, length) }()
	begin := time.Now()
	for i := 1; i <= namespaces; i++ {
		b.come(a, i, fromFile).leave()
		<-time.After(time.Until(begin.Add(time.Duration(i) * every)))
	}
	t.Logf("%d namespaces came and went within %.1f s", namespaces, time.Since(begin).Seconds())
	during := <-done
	if !onBPF() {
		// Other work on this machine may have kept the senders from filling the link;
		// what there was is divided as before.
		for i := range ideal {
			ideal[i] *= min(1, (during[0]+during[1])*1e6/float64(b.capacity))
		}
	}
	b.same("during the churn", during, ideal, unchanged)

	await(t, 5*time.Second, "all of the guests' packets arrive", func() error { // the last were sent just now
		if got, sent := b.receiver.arrivals()[0].Packets, uint64(guestPackets*(namespaces+1)); got != sent {
			return fmt.Errorf("%d of %d", got, sent)
		}
		return nil
	})
	if host := class(b.counters(0), 0); host.EnqueuedPackets > 0 {
		t.Errorf("%d packets were not marked and counted as the host's", host.EnqueuedPackets)
	}
	b.addUp(b.counters(0))
	b.agentAtRest(a, 2+fromFile)
	await(t, 15*time.Second, "nothing left of the churn", func() error { return inventory(t, a).more(was) })
	now := inventory(t, a)
	used := b.live()
	t.Logf("before %d programs, %d maps, %d links, %d files; after %d, %d, %d, %d, and %d KiB of memory",
		was.Programs, len(was.Maps), was.Links, was.Files, now.Programs, len(now.Maps), now.Links, now.Files, used)
	// An agent that has just started needs 3 to 5 MiB: not compared with that, since what
	// it read to start is garbage of 30 MiB that may not have been collected by then.
	if used > 8<<10 {
		t.Errorf("the agent uses %d KiB after the churn", used)
	}
}

func guestsInFile(n int) (yaml string) {
	for i := range n {
		yaml += fmt.Sprintf("  - {name: guest-file%d, netns: guest%d}\n", i, i)
	}
	return yaml
}

// agentAtRest waits until the agent knows of no more workloads than these, and
// lists what there is.
func (b *bed) agentAtRest(a *agent, workloads int) leftovers {
	b.t.Helper()
	await(b.t, 5*time.Second, "guests forgotten", func() error {
		status, err := a.Status(context.Background())
		if err == nil && status.Links[0].Workloads != workloads {
			err = fmt.Errorf("%d workloads, should be %d", status.Links[0].Workloads, workloads)
		}
		return err
	})
	return inventory(b.t, a)
}

// guest is a namespace that stays for a moment.
type guest struct {
	b        *bed
	a        *agent
	i        int
	box      *space
	attached string // its name, if it was attached by hand
}

// guestPackets is how many packets each guest sends.
const guestPackets = 20

// guestNumber keeps guests' addresses away from those that are measured.
const guestNumber = 0x100

// come makes a namespace, has it attached one way or another, and has it send.
func (b *bed) come(a *agent, i, fromFile int) guest {
	b.t.Helper()
	g := guest{b: b, a: a, i: i}
	slot := i % (2 * fromFile) // the first half of the slots is the file's
	if slot < fromFile {
		g.box = newSpace(b.t, fmt.Sprintf("guest%d", slot))
	} else {
		g.box = newSpace(b.t, fmt.Sprintf("guest-by-hand%d", i))
		g.attached = fmt.Sprintf("guest-%d", i)
		g.attach(api.AttachRequest{Name: g.attached, Netns: g.box.name})
	}
	port := fmt.Sprintf("g%d", i)
	b.host.plug("br0", port, g.box, "eth0", workloadAt(0, guestNumber+i))
	g.box.knows("eth0", serverAt(0))
	name := g.attached
	if name == "" {
		name = fmt.Sprintf("guest-file%d", slot)
	}
	await(b.t, 5*time.Second, name+" steered", func() error {
		w, err := a.Workload(context.Background(), name)
		if err == nil && (w.State != "active" || len(w.Devices) != 1 || w.Devices[0] != port) {
			err = fmt.Errorf("%s with devices %v, not %s", w.State, w.Devices, port)
		}
		return err
	})
	g.send(guestPackets)
	return g
}

func (g guest) attach(req api.AttachRequest) {
	g.b.t.Helper()
	if _, err := g.a.Attach(context.Background(), req, false); err != nil {
		g.b.t.Fatal(err)
	}
}

// send sends packets as part of flow 0.
func (g guest) send(packets int) {
	g.b.t.Helper()
	err := g.box.do(func() error {
		conn, err := net.DialUDP("udp4", nil, &net.UDPAddr{IP: serverAt(0).ip, Port: udpPort})
		if err != nil {
			return err
		}
		defer conn.Close()
		for range packets {
			if _, err := conn.Write(make([]byte, 500)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		g.b.t.Fatal(err)
	}
}

// leave takes the namespace away, of those attached by hand every second one
// before it is detached.
func (g guest) leave() {
	g.b.t.Helper()
	first, second := g.detach, g.box.remove
	if g.i%2 == 0 {
		first, second = second, first
	}
	first()
	second()
	if l, err := g.b.host.LinkByName(fmt.Sprintf("g%d", g.i)); err == nil {
		// The kernel takes a namespace down some time after its last user has gone.
		_ = g.b.host.LinkDel(l)
	}
}

func (g guest) detach() {
	g.b.t.Helper()
	if g.attached == "" {
		return
	}
	if _, err := g.a.Detach(context.Background(), g.attached, false); err != nil {
		g.b.t.Fatal(err)
	}
}
