// SPDX-License-Identifier: Apache-2.0

package beside

import (
	"cmp"
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// manager is a program that manages the network of the host.
type manager struct {
	name    string
	units   []string      // of systemd, which run all the time
	link    string        // the device that Weir shares, "" = up0
	address string        // the device that has up0's address, "" = up0
	far     string        // the address that the workloads send to, "" = that of the far end
	setUp   func(h *host) // have it manage the link
	state   string        // a line of shell that prints what it says of the link
	works   []string      // lines of shell that restart it and configure it anew, done in turn
	root    string        // what the qdisc at the link's root begins with without Weir, "" = the kernel's default
	force   bool          // weir.yaml says force: the manager sets a qdisc before Weir comes
	mends   int           // how often at most one of its works takes Weir's qdisc away
	doctor  string        // what weir doctor says of it at the link
	says    int           // how many lines the agent may say beside those about qdiscs, after one of its works
	config  string        // more of weir.yaml
	attach  string        // one more workload there
	guest   string        // the workload that the manager makes and that sends, "" = none
	docker  bool          // the agent asks Docker for workloads
}

// rounds is how often each manager works beside Weir.
var rounds = flag.Int("rounds", 10, "how often each manager is restarted or configured anew beside Weir")

// TestManagers has each manager work without Weir and beside it.
func TestManagers(t *testing.T) {
	for _, m := range managers() {
		t.Run(m.name, func(t *testing.T) {
			h := newHost(t, m)
			m.setUp(h)
			m.reachable(h)
			h.send(m)
			for _, unit := range m.units {
				h.run("systemctl is-active " + unit)
			}
			var without []string
			for _, work := range m.works {
				h.run(work)
				without = append(without, m.settled(h, ""))
			}
			before := h.root()
			if !strings.HasPrefix(before, "qdisc "+m.root) {
				t.Fatalf("without Weir the root qdisc is %q, not %s", before, m.root)
			}
			a := h.startAgent(m)
			if out, _ := h.try("weir doctor"); !strings.Contains(out, m.doctor) {
				t.Errorf("weir doctor does not name %q:\n%s", m.doctor, out)
			}
			for i := range *rounds {
				m.beside(h, a, i, without[i%len(m.works)])
			}
			a.cleanUp()
			if after := h.root(); alike(after) != alike(before) {
				t.Errorf("after weir cleanup the root qdisc is %q, and was %q", after, before)
			}
			m.settled(h, without[len(without)-1])
		})
	}
}

// beside has the manager work once beside Weir.
func (m manager) beside(h *host, a *agent, i int, without string) {
	h.t.Helper()
	work, root := m.works[i%len(m.works)], h.watch()
	h.run(work)
	h.await(rightWithin, "after "+work+" Weir's state is right", a.right)
	m.settled(h, without)
	h.await(rightWithin, "after "+work+" has settled, Weir's state is right", a.right)
	times, longest := root.end()
	if err := a.marked(); err != nil {
		h.t.Errorf("after %s: %v", work, err)
	}
	ratio, guest, used := h.share(1500 * time.Millisecond)
	more := a.said()
	h.t.Logf("%d: %s: another root qdisc %d times, for %.2f s; shares %.2f to %.2f to 1 of %.0f %%; said %q", i, work, times, longest.Seconds(), ratio, guest, 100*used, more)
	if longest > rightWithin || times > m.mends {
		h.t.Errorf("after %s the root qdisc was another one %d times, for up to %v", work, times, longest)
	}
	if ratio < 2.7 || ratio > 3.3 || used < 0.9 {
		h.t.Errorf("after %s the shares are %.2f to 1 of %.0f %% of the link", work, ratio, 100*used)
	}
	if m.guest != "" && (guest < 0.9 || guest > 1.1) {
		h.t.Errorf("after %s the guest has %.2f to 1", work, guest)
	}
	if len(more) > times+m.says {
		h.t.Errorf("of %s the agent says %d lines:\n%s", work, len(more), strings.Join(more, "\n"))
	}
}

// settled waits until the manager says of the link what it said without Weir, and returns that;
// what it says twice where that is not known. Each look starts programs, which takes an emulated
// CPU long.
func (m manager) settled(h *host, without string) (text string) {
	h.t.Helper()
	dev := cmp.Or(m.address, uplink)
	time.Sleep(time.Second) // some commands return before their daemon has begun
	h.await(patience, "the manager is done", func() error {
		time.Sleep(time.Second)
		before := text
		text = h.run(m.state + "; ip -o -4 address show dev " + dev + " | sed 's/^[0-9]*: //; s/valid_lft.*//'; ip route show dev " + dev)
		switch {
		case without != "" && text != without:
			return fmt.Errorf("it says\n%s\nand without Weir\n%s", text, without)
		case without == "" && (text != before || !strings.Contains(text, uplinkAddr)):
			return fmt.Errorf("it says\n%s", text)
		}
		return m.healthy(h)
	})
	return text
}

// healthy returns which of the manager's units is not as it should be.
func (m manager) healthy(h *host) error {
	for _, unit := range m.units {
		out := h.run("systemctl show --property ActiveState,Result,NRestarts " + unit)
		for _, want := range []string{"ActiveState=active\n", "Result=success\n", "NRestarts=0\n"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("%s: %s", unit, out)
			}
		}
	}
	return nil
}

// alike cuts off the parts of a qdisc's line that differ between two equal ones: the handle that
// the kernel allots, counts, and what the kernel draws.
func alike(line string) string {
	return regexp.MustCompile(`^qdisc (\w+) \w+: |refcnt \d+|direct_packets_stat \d+|seed \d+`).ReplaceAllString(line, "$1 ")
}
