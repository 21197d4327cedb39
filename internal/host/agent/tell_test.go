// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/core/event"
	"weir/internal/host/dataplane"
)

// told returns the agent's events as "KIND STATE NAME".
func (h *host) told() string {
	h.t.Helper()
	all, err := h.Events(context.Background(), api.EventQuery{})
	if err != nil {
		h.t.Fatal(err)
	}
	var lines []string
	for _, e := range all.Recent {
		lines = append(lines, fmt.Sprintf("%s %s %s", e.Kind, e.State, e.Subject.Name))
	}
	return strings.Join(lines, ", ")
}

// TestEvents: what happens to a host is told once, in the log, to those who ask and in the
// stream, and not again by the next agent.
func TestEvents(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		ctx, leave := context.WithCancel(t.Context())
		streamed := make(chan []event.Event, 1)
		go func() {
			var events []event.Event
			for s := range h.Subscribe(ctx) {
				events = append(events, s.Events...)
			}
			streamed <- events
		}()
		h.run("a", "weir.min=60mbit")
		h.run("web", "weir.min=60mbit")
		time.Sleep(5 * time.Second)
		if got := h.told(); got != "refused begin web" {
			t.Errorf("told %s", got)
		}
		if !strings.Contains(h.log.String(), `level=WARN msg="web: link eth0: min is not in force: asked 60 Mbit/s`) || !strings.Contains(h.log.String(), `event=refused state=begin id=1 workload=web remedy="ask for less`) {
			t.Errorf("the log has\n%s", h.log)
		}
		leave()
		if events := <-streamed; len(events) != 1 || events[0].Kind != "refused" {
			t.Errorf("the stream has %+v", events)
		}
		h.stop()
		h.start()
		time.Sleep(20 * time.Second)
		h.kill("a")
		time.Sleep(60 * time.Second) // its min is kept for 30 s
		if got := h.told(); got != "refused begin web, refused end web" {
			t.Errorf("told %s", got)
		}
		s, err := h.Status(t.Context())
		if err != nil || s.Events.Begun["refused"] != 0 || s.Events.Open["refused"] != 0 {
			t.Errorf("%+v, %v", s.Events, err) // the second agent has told no begin
		}
	})
}

// TestEventsOfLinks: a device that goes, and objects that another program removes.
func TestEventsOfLinks(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.kernel.Disturb("eth0", "the qdisc")
		time.Sleep(5 * time.Second)
		h.kernel.RemoveDevice("eth0")
		time.Sleep(30 * time.Second)
		h.kernel.AddDevice("eth0")
		time.Sleep(2 * time.Minute)
		if got := h.told(); got != "repaired begin eth0, link-gone begin eth0, link-gone end eth0, repaired end eth0" {
			t.Errorf("told %s\n%s", got, h.log)
		}
		h.kernel.FailSet("eth0", dataplane.ErrPrivilege)
		h.run("b")
		time.Sleep(10 * time.Second)
		if got := h.told(); !strings.HasSuffix(got, "repaired end eth0, backend-lost begin eth0") {
			t.Errorf("told %s\n%s", got, h.log)
		}
	})
}

// TestOnlyWhatIsSetAgainIsRepaired: a qdisc of another program that the agent leaves there is
// the loss of the link, and no repair.
func TestOnlyWhatIsSetAgainIsRepaired(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.kernel.FailSet("eth0", dataplane.ErrForeignQdisc)
		h.kernel.Disturb("eth0", "the root qdisc is fq_codel")
		time.Sleep(2 * time.Minute)
		if got := h.told(); got != "backend-lost begin eth0" {
			t.Errorf("told %s\n%s", got, h.log)
		}
	})
}

// TestNoEventOfNewAddresses: the agent sets a zone anew that follows the addresses of its device,
// and makes no event of it.
func TestNoEventOfNewAddresses(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		sets := h.kernel.Sets("eth0")
		h.kernel.Move("eth0")
		time.Sleep(5 * time.Second)
		if got := h.kernel.Sets("eth0"); got != sets+1 {
			t.Errorf("set %d times, want once", got-sets)
		}
		if got := h.told(); got != "" || strings.Contains(h.log.String(), "another program") {
			t.Errorf("told %q\n%s", got, h.log)
		}
	})
}

// TestFullDisk: a disk on which the agent can write nothing is a problem and an event, until
// there is room.
func TestFullDisk(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		var full []api.Storage
		h.start()
		h.opts.Unwritable = func() []api.Storage { return full }
		expect := func(problems int, told string) {
			t.Helper()
			seconds(2)
			s, err := h.Status(t.Context())
			if err != nil || len(s.Problems) != problems || h.told() != told {
				t.Errorf("problems %v, told %s, %v; want %d and %s", s.Problems, h.told(), err, problems, told)
			}
		}
		expect(0, "")
		full = []api.Storage{{Path: "/var/lib/weir", Lost: "usage is", Note: "the disk is full"}}
		expect(1, "unwritable begin /var/lib/weir")
		full = nil
		seconds(5)
		expect(0, "unwritable begin /var/lib/weir, unwritable end /var/lib/weir")
	})
}

// TestLinkWithoutCarrier: a device that cannot send is a problem of the link, once for both of its
// directions.
func TestLinkWithoutCarrier(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, ingress: 100mbit}]", func(t *testing.T, h *host) {
		down := ""
		h.down = func(string) string { return down }
		h.start()
		down = "the device has no carrier, so nothing is sent; look at the cable"
		seconds(5)
		s, err := h.Status(t.Context())
		if problems := s.Problems; err != nil || said(problems) != "link eth0: "+down {
			t.Errorf("problems %v, %v", problems, err)
		}
		down = ""
		seconds(10)
		if told := h.told(); told != "link-down begin eth0, link-down end eth0" {
			t.Errorf("told %s", told)
		}
	})
}

// said returns problems as weir status prints them.
func said(list []event.Fault) string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.String()
	}
	return strings.Join(texts, "\n")
}
