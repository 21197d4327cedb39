// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/api"
	"weir/internal/host/dataplane"
	"weir/internal/host/discover"
)

func TestNothingToSteer(t *testing.T) {
	for name, err := range map[string]error{
		"privilege": dataplane.ErrPrivilege, "foreign": dataplane.ErrForeignQdisc, "support": dataplane.ErrNoSupport,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHost(t, "")
				h.kernel.FailOpen(err)
				h.start()
				if got := <-h.done; !errors.Is(got, err) {
					t.Errorf("agent ended with %v, want %v", got, err)
				}
				if log := h.log.String(); log != "" {
					t.Errorf("the error is the one line, but the log says %s", log)
				}
				if _, err := h.Status(t.Context()); !errors.Is(err, errEnded) {
					t.Errorf("an agent that has ended answers %v", err)
				}
				h.cancel()
			})
		})
	}
}

func TestTwoLinks(t *testing.T) {
	inBubble(t, `
links:
  - {device: eth0, egress: 100mbit}
  - {device: eth1, egress: 10mbit}
`, func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.min=25%")
		h.run("b", "weir.min=20mbit")
		h.expect("a share is of each link", "eth0", `
			0 host weight 1
			1 a weight 1 min 25 Mbit/s: vetha
			2 b weight 1 min 20 Mbit/s: vethb`)
		h.expect("what one link cannot hold the other may", "eth1", `
			0 host weight 1
			1 a weight 1 min 2.5 Mbit/s: vetha
			2 b weight 1: vethb`)
		w := h.workload("b")
		if w.State != "refused" || !strings.Contains(w.Note, "link eth1") || strings.Contains(w.Note, "eth0") {
			t.Errorf("state %s, note %q", w.State, w.Note)
		}
		if len(w.Links) != 2 || w.Links[0].MinBps != 20e6 || w.Links[1].MinBps != 0 {
			t.Errorf("links %+v", w.Links)
		}
	})
}

func TestLinkIsNoPort(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}, {device: eth1, egress: 10mbit}]", func(t *testing.T, h *host) {
		h.start()
		h.docker.change(func(list map[string]discover.Workload) {
			w := container("router")
			w.Devices = append(w.Devices, discover.Device{Name: "eth1", Ifindex: 3})
			list[w.Key] = w
		})
		h.expect("other link", "eth0", "0 host weight 1\n1 router weight 1: eth1 vethrouter")
		h.expect("the link itself", "eth1", "0 host weight 1\n1 router weight 1: vethrouter")
	})
}

func TestDeviceComesLate(t *testing.T) {
	inBubble(t, "links: [{device: wwan0, egress: 10mbit}, {device: eth0, egress: 100mbit}]", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		status := func() api.LinkStatus {
			s, err := h.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return s.Links[0]
		}
		if l := status(); l.Backend != "none" || !strings.Contains(l.Error, "no such network device") {
			t.Errorf("link %+v", l)
		}
		const want = "0 host weight 1\n1 a weight 1: vetha"
		h.expect("the other link", "eth0", want)
		seconds(20)
		h.kernel.AddDevice("wwan0")
		seconds(9)
		h.expect("it came", "wwan0", want)
		h.kernel.RemoveDevice("wwan0")
		seconds(2)
		if l := status(); l.Backend != "none" {
			t.Errorf("link %+v", l)
		}
		h.kernel.AddDevice("wwan0")
		seconds(9)
		h.expect("it came again", "wwan0", want)
		if l := status(); l.Error != "" || l.Backend == "none" {
			t.Errorf("link %+v", l)
		}
		if n := strings.Count(h.log.String(), "waiting for the device"); n != 2 {
			t.Errorf("%d lines about waiting", n)
		}
	})
}

func TestKernelFails(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		h.kernel.FailSet("eth0", errors.New("no memory"))
		_, err := h.Set(t.Context(), "a", change("weight=3"), false)
		if err == nil || !strings.Contains(err.Error(), "no memory") {
			t.Errorf("got %v", err)
		}
		h.run("b")
		seconds(5)
		h.kernel.FailSet("eth0", nil)
		seconds(9)
		h.expect("made up for", "eth0", "0 host weight 1\n1 a weight 1: vetha\n2 b weight 1: vethb")
		if s, _ := h.Status(t.Context()); s.Links[0].Error != "" {
			t.Errorf("link %+v", s.Links[0])
		}
	})
}

func TestHeal(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		backend, err := h.kernel.Open("eth0")
		if err != nil {
			t.Fatal(err)
		}
		if err := backend.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		h.expect("gone", "eth0", "")
		seconds(31)
		h.expect("healed", "eth0", "0 host weight 1\n1 a weight 1: vetha")
	})
}

// A foreign change on a link is undone at the next tick and written
// down: once a minute where it goes on.
func TestDisturbedLink(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit}]", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.weight=2")
		const said = "another program changed what Weir set on the link"
		sets := h.kernel.Sets("eth0")
		h.kernel.Disturb("eth0", "class 1 (a) is gone", "2", "3", "4", "5", "6", "7")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := h.kernel.Sets("eth0"); got != sets+1 {
			t.Errorf("set %d times within a second, want once", got-sets)
		}
		if log := h.log.String(); !strings.Contains(log, said) || !strings.Contains(log, "class 1 (a) is gone; 2; 3; 4; 5; and 2 more") {
			t.Errorf("the log does not say what was changed: %s", log)
		}
		for range 50 {
			h.kernel.Disturb("eth0", "class 1 (a) is gone", "2", "3", "4", "5", "6", "7")
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if got := strings.Count(h.log.String(), said); got != 1 {
			t.Errorf("said %d times in 50 s, want once", got)
		}
		if got := h.kernel.Sets("eth0"); got != sets+51 {
			t.Errorf("set %d times, want 51", got-sets)
		}
	})
}
