// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/plan"
	"weir/internal/host/agent/ledger"
	"weir/internal/host/dataplane/fake"
)

// What workloads, groups and links sent is known over restarts of the agent and of a workload,
// also what they sent while no agent ran.
func TestUsage(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, ingress: 100mbit}]\ngroups: {office: {}}", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.weight=2")
		h.run("b")
		h.set("b", "group=office")
		class := func(name string) uint16 { return h.workload(name).Class }
		a, b := class("a"), class("b")
		send := func(class uint16, bytes uint64) { h.send("eth0", class, bytes) }
		seconds(1)
		send(a, 1000)
		seconds(2)
		send(b, 70)
		h.kill("b") // counted before its class goes
		h.run("b")
		seconds(2)
		send(class("b"), 7)
		seconds(2)
		h.stop()
		send(a, 200)
		h.kill("a")
		h.start() // a's class goes, after it was read
		h.run("a")
		seconds(60)
		send(class("a"), 5)
		seconds(2)
		u, err := h.Usage(context.Background(), api.UsageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]uint64{}
		for _, r := range u.Rows {
			got[r.Kind+" "+r.Name] = r.SentBytes
		}
		for name, want := range map[string]uint64{"workload a": 1205, "workload b": 77, "group office": 77, "link eth0": 1282} {
			if got[name] != want {
				t.Errorf("%s sent %d bytes, want %d", name, got[name], want)
			}
		}
	})
}

// The agent counts all that workloads send which come and go between two readings, also if others
// have their class next: each has what it sent, and a link what all its rows have. It is on the
// disk before a class goes.
func TestUsageOfShortJobs(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		seconds(2)
		for _, job := range []struct {
			name  string
			bytes uint64
		}{{"j1", 2000}, {"j2", 2000}, {"j3", 5000}, {"j1", 100}} {
			h.run(job.name)
			h.send("eth0", h.workload(job.name).Class, job.bytes)
			time.Sleep(300 * time.Millisecond)
			h.kill(job.name)
			want := map[string]uint64{"j1": 2000, "j2": 2000, "j3": 5000}[job.name] // as an agent that is killed now leaves it
			if kept := h.usageOnDisk(); kept["workload "+job.name] < min(want, job.bytes) {
				t.Errorf("after %s the disk has %v", job.name, kept)
			}
		}
		seconds(2)
		want := map[string]uint64{"workload j1": 2100, "workload j2": 2000, "workload j3": 5000, "link eth0": 9100}
		if got := h.usage(); !maps.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		if status, err := h.Status(t.Context()); err != nil || status.Links[0].SentBytes != 9100 {
			t.Errorf("the link has counted %d bytes, %v", status.Links[0].SentBytes, err)
		}
	})
}

// What a container has, its settings and what was counted of it and of its quota, goes with it to
// another name, and another container that gets the name has nothing of it.
func TestUsageOfARenamedContainer(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		c := apitest.Change("quota", "egress 1GB per day then tell")
		if _, err := h.Set(t.Context(), "a", c, false); err != nil {
			t.Fatal(err)
		}
		h.set("a", "weight=7")
		seconds(2)
		h.send("eth0", h.workload("a").Class, 4000)
		seconds(2)
		h.send("eth0", h.workload("a").Class, 500)
		h.run("c")
		h.rename("a", "b")
		h.rename("c", "a")
		h.send("eth0", h.workload("a").Class, 30)
		h.send("eth0", h.workload("b").Class, 2)
		seconds(2)
		if got, want := h.usage(), (map[string]uint64{"workload a": 30, "workload b": 4502, "link eth0": 4532}); !maps.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		if w := h.workload("b"); w.Policy.Weight != 7 || w.Quota == nil || w.Quota.SentBytes != 4502 {
			t.Errorf("b has weight %d, quota %+v", w.Policy.Weight, w.Quota)
		}
		if w := h.workload("a"); w.Policy.Weight != 1 || w.Quota != nil {
			t.Errorf("another a has weight %d, quota %+v", w.Policy.Weight, w.Quota)
		}
	})
}

// usage returns what was sent, by kind and name.
func (h *host) usage() map[string]uint64 {
	h.t.Helper()
	u, err := h.Usage(context.Background(), api.UsageQuery{})
	if err != nil {
		h.t.Fatal(err)
	}
	return sentIn(u)
}

// usageOnDisk returns what an agent would find that is started now.
func (h *host) usageOnDisk() map[string]uint64 {
	h.t.Helper()
	l, err := ledger.Open(filepath.Join(h.dir, "usage"), slog.New(slog.DiscardHandler))
	if err != nil {
		h.t.Fatal(err)
	}
	u, err := l.History().Usage(context.Background(), api.UsageQuery{}, time.UTC)
	if err != nil {
		h.t.Fatal(err)
	}
	return sentIn(u)
}

func sentIn(u api.Usage) map[string]uint64 {
	sent := map[string]uint64{}
	for _, r := range u.Rows {
		sent[r.Kind+" "+r.Name] = r.SentBytes
	}
	return sent
}

// What nothing counts is not shown as nothing received.
func TestUsageThatNothingCounts(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, ingress: 100mbit}, {device: eth1, egress: 10mbit}]", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		seconds(1)
		for _, device := range []string{"eth0", "eth1"} {
			h.send(device, h.workload("a").Class, 1000)
			h.send(device, 0, 1000)
		}
		seconds(2)
		u, err := h.Usage(context.Background(), api.UsageQuery{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, r := range u.Rows {
			got[r.Kind+" "+r.Name+" "+r.Device] = r.ReceivedUncounted
		}
		want := map[string]bool{"workload a eth0": false, "workload host eth0": true, "link eth0 eth0": false,
			"workload a eth1": true, "workload host eth1": true, "link eth1 eth1": true}
		if !maps.Equal(got, want) {
			t.Errorf("not counted: %v, want %v", got, want)
		}
	})
}

// send has the kernel count bytes of a class.
func (h *host) send(device string, class uint16, bytes uint64) {
	h.kernel.Send(device, plan.ClassID(class), fake.ClassTraffic{Bytes: bytes})
}
