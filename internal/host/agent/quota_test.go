// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/refusal"
)

// The bubble's time begins on Saturday, 2000-01-01 00:00 UTC.

// A quota is in force within a second of its size, over restarts of agent and workload, and
// ends with its period.
func TestQuota(t *testing.T) {
	const config = `
links: [{device: eth0, egress: 100mbit, ingress: 80mbit}]
groups: {office: {quota: {total: 1GB, per: day, timezone: UTC, then: block}}}
workloads:
  a: {min: 20mbit, quota: {egress: 500GB, per: day, from: "06:00", timezone: Europe/Berlin, then: {max: 5mbit}}}
`
	inBubble(t, config, func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		h.run("b")
		h.set("b", "group=office")
		before, inward := h.state("eth0"), h.state("eth0 ingress")
		standing := func(name string) api.QuotaStanding { return *h.workload(name).Quota }
		class := h.workload("a").Class
		seconds(2)
		h.send("eth0", class, 300e9)
		seconds(2)
		if q := standing("a"); q.State != "within" || q.LeftBytes != 200e9 || q.Until.Format(time.RFC3339) != "2000-01-01T05:00:00Z" {
			t.Errorf("after 300 GB: %+v", q)
		}
		h.send("eth0", class, 100e9)
		seconds(2)
		if w := h.workload("a"); w.Quota.State != "near" || w.Note != "80 % of its quota are used" {
			t.Errorf("after 400 GB: %+v, note %q", w.Quota, w.Note)
		}
		h.expect("within the quota", "eth0", before)
		h.stop()
		h.send("eth0", class, 100e9) // while no agent runs
		h.kill("a")
		h.run("a")
		h.start()
		throttled := strings.Replace(before, "a weight 1 min 20 Mbit/s", "a weight 1 min 5 Mbit/s max 5 Mbit/s", 1)
		h.expect("at once after the start", "eth0", throttled)
		w := h.workload("a")
		if w.Quota.State != "reached" || w.State != "active" || !strings.Contains(w.Note, "quota reached: a max of egress of 5mbit until Sat 2000-01-01 05:00") {
			t.Errorf("after 500 GB: %s, %+v, note %q", w.State, w.Quota, w.Note)
		}
		e, err := h.Explain(t.Context(), "a")
		if err != nil || !strings.Contains(strings.Join(e.Links[0].Text, " "), "500 GB of 500 GB of egress used since") {
			t.Errorf("explained by %q, %v", e.Links[0].Text, err)
		}
		// What was admitted stays so: the min is back later.
		_, err = h.Set(t.Context(), "b", change("min=90mbit"), false)
		refused(t, err, refusal.NoRoom, "reserved 20 Mbit/s")

		h.send("eth0 ingress", h.workload("b").Class, 1e9)
		seconds(2)
		h.expect("the group's", "eth0 ingress", strings.Replace(inward, "office weight 1", "office weight 1 max 1 kbit/s", 1))
		h.expect("the group's", "eth0", strings.Replace(throttled, "office weight 1", "office weight 1 max 1 kbit/s", 1))
		time.Sleep(time.Until(time.Date(2000, 1, 1, 5, 0, 1, 0, time.UTC)))
		h.expect("in a's next day", "eth0", strings.Replace(before, "office weight 1", "office weight 1 max 1 kbit/s", 1))
		time.Sleep(time.Until(time.Date(2000, 1, 2, 0, 0, 1, 0, time.UTC)))
		h.expect("in the group's next day", "eth0", before)

		// More, or none, counts at once.
		h.send("eth0", class, 600e9)
		seconds(2)
		h.expect("reached again", "eth0", throttled)
		for _, more := range []string{"egress 700GB per day from 06:00 timezone Europe/Berlin then max 5mbit", "none"} {
			ask(t, h, "a", "quota", more)
			h.expect(more, "eth0", before)
		}
		ask(t, h, "a", "quota", "egress 600GB per day from 06:00 timezone Europe/Berlin then max 5mbit")
		seconds(2)
		h.expect("from the history", "eth0", throttled)
	})
}

func TestQuotaIsRefused(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		before := h.state("eth0")
		for _, bad := range []string{"egress 0 per month then block", "egress 1GB per year then block", "egress 1GB per day timezone Mars/Base then block", "egress 1GB per month then max none"} {
			_, err := h.Set(t.Context(), "a", apitest.Change("quota", bad), false)
			refused(t, err, refusal.Invalid, "quota.")
		}
		_, err := h.Set(t.Context(), "a", apitest.Change("quota", "egress 1GB per month then block", "reserve", "5mbit"), false)
		refused(t, err, refusal.Invalid, "a reservation is held whatever its quota")
		h.expect("after", "eth0", before)
	})
}

// TestQuotaThatNothingCounts: a quota of what is received is refused where no link counts that.
func TestQuotaThatNothingCounts(t *testing.T) {
	const received, total = "ingress 1GB per month then block", "total 1GB per month then block"
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		ask := func(value string) error {
			_, err := h.Set(t.Context(), "a", apitest.Change("quota", value), false)
			return err
		}
		refused(t, ask(received), refusal.Invalid, "quota.ingress", "no link's ingress is steered", "ingress: under links:")
		_, err := h.SetGroup(t.Context(), "office", api.GroupChange{PolicyChange: apitest.Change("quota", received)}, false)
		refused(t, err, refusal.Invalid, "no link's ingress is steered")
		_, err = h.Attach(t.Context(), api.AttachRequest{Name: "lab", Netns: "lab", Policy: apitest.Change("quota", received)}, false)
		refused(t, err, refusal.Invalid, "no link's ingress is steered")
		if err := ask(total); err != nil {
			t.Errorf("what is sent counts: %v", err)
		}
		h.reload("links: [{device: eth0, egress: 100mbit, ingress: 80mbit}]")
		if err := ask(received); err != nil {
			t.Errorf("of a link with ingress: %v", err)
		}
		_, err = h.Attach(t.Context(), api.AttachRequest{Name: "jobs", Cgroup: "/sys/fs/cgroup/jobs", Policy: apitest.Change("quota", received)}, false)
		refused(t, err, refusal.Invalid, "quota.ingress")
	})
}
