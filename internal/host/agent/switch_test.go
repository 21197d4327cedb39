// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/sdn/switchport"
)

// switchPort is a port of a switch with a voice queue.
func switchPort(device string, bandwidth policy.Rate) switchport.Port {
	number := func(n uint16) []classify.Match { return []classify.Match{{Queue: classify.Given(n)}} }
	return switchport.Port{Bridge: "s1", Name: device, Device: device, Bandwidth: bandwidth, Policy: policy.Policy{
		Weight: 1, Discipline: discipline.LLQ,
		Queues: []policy.Queue{
			{Name: "voice", Rate: policy.Amount{Rate: 1e6}, Match: number(0)},
			{Name: "rest", Min: policy.Amount{Rate: 2e6}, Match: number(3)},
		},
	}}
}

// withPorts runs a test with an agent that follows a switch.
func withPorts(t *testing.T, config string, test func(h *host, says func(switchport.Report))) {
	inBubble(t, config, func(_ *testing.T, h *host) {
		reports := make(chan switchport.Report)
		h.ports = func(ctx context.Context, report func(switchport.Report)) error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case r := <-reports:
					report(r)
				}
			}
		}
		h.start()
		test(h, func(r switchport.Report) {
			reports <- r
			time.Sleep(2 * time.Second) // a new link is opened at the next tick
			synctest.Wait()
		})
	})
}

// TestSwitchPortIsALink: the switch's database makes a device a link, changes it
// and takes it away.
func TestSwitchPortIsALink(t *testing.T) {
	withPorts(t, "links: []", func(h *host, says func(switchport.Report)) {
		says(switchport.Report{Ports: []switchport.Port{switchPort("eth1", 8e6)}})
		s := h.kernel.State("eth1")
		if s.Link.Capacity != 8e6 || len(s.Classes) != 1 || s.Classes[0].Discipline != discipline.LLQ || len(s.Classes[0].Queues) != 2 {
			t.Fatalf("eth1 is %+v", s)
		}
		if q := s.Classes[0].Queues; q[0].Name != "voice" || q[0].Rate != 1e6 || q[1].Weight == 0 {
			t.Errorf("queues %+v", q)
		}
		says(switchport.Report{Ports: []switchport.Port{switchPort("eth1", 9e6)}})
		if s := h.kernel.State("eth1"); s.Link.Capacity != 9e6 {
			t.Errorf("after a change eth1 is %+v", s)
		}
		says(switchport.Report{})
		if s := h.kernel.State("eth1"); len(s.Classes) != 0 {
			t.Errorf("a port that is none any longer is %+v", s)
		}
	})
}

// TestConfiguredLinkStays: what the configuration says of a device counts, and
// each link has the discipline that is meant for it.
func TestConfiguredLinkStays(t *testing.T) {
	withPorts(t, "links: [{device: eth0, egress: 100mbit}]", func(h *host, says func(switchport.Report)) {
		says(switchport.Report{Ports: []switchport.Port{switchPort("eth0", 8e6), switchPort("eth1", 8e6)}})
		if s := h.kernel.State("eth0"); s.Link.Capacity != 100e6 || s.Classes[0].Discipline == discipline.LLQ {
			t.Errorf("eth0 is %+v", s)
		}
		if s := h.kernel.State("eth1"); s.Link.Capacity != 8e6 || s.Classes[0].Discipline != discipline.LLQ {
			t.Errorf("eth1 is %+v", s)
		}
		if !strings.Contains(h.log.String(), "port of the switch stays as the configuration has it") {
			t.Errorf("nobody is told: %s", h.log)
		}
	})
}
