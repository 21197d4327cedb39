// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/readers"
	"weir/internal/host/agent/usage"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/fake"
	"weir/internal/host/dataplane/pace"
)

func TestRates(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.weight=3", "weir.min=10mbit")
		h.run("b")
		seconds(1)
		for range 3 {
			h.kernel.Send("eth0", 1, fake.ClassTraffic{Bytes: 9e6, Backlog: 20, Drops: 5})
			h.kernel.Send("eth0", 2, fake.ClassTraffic{Bytes: 1e6})
			seconds(1)
		}
		a, b := h.workload("a").Links[0], h.workload("b").Links[0]
		if a.RateBps != 72e6 || a.Share != 0.72 || a.IdealBps != 92e6 || a.DropsPerSecond != 5 || a.BacklogPackets != 20 {
			t.Errorf("a: %+v", a)
		}
		if b.RateBps != 8e6 || b.IdealBps != 8e6 || b.OfferedBps != 8e6 {
			t.Errorf("b: %+v", b)
		}
		s, _ := h.Status(t.Context())
		if s.Links[0].RateBps != 80e6 {
			t.Errorf("link %+v", s.Links[0])
		}
		e, err := h.Explain(t.Context(), "a")
		if err != nil || e.Links[0].Binds != "share" || e.Links[0].Others[0].Name != "b" {
			t.Errorf("explanation %+v, %v", e, err)
		}
	})
}

// A min that is starved for 3 of 60 seconds has a score of 95.0 %; a workload without a
// backlog has none.
func TestScore(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.min=10mbit")
		h.run("b")
		seconds(1)
		for i := range 61 { // the first has no backlog at its beginning
			bytes := uint64(1_250_000)
			if i >= 30 && i < 33 {
				bytes = 500_000
			}
			h.kernel.Send("eth0", 1, fake.ClassTraffic{Bytes: bytes, Backlog: 20, Waited: time.Second, WaitedBytes: bytes})
			h.kernel.Send("eth0", 2, fake.ClassTraffic{Bytes: 1e6})
			seconds(1)
		}
		if b := h.workload("b").Links[0].Score; b != nil {
			t.Errorf("b wanted nothing: %+v", *b)
		}
		a := h.workload("a").Links[0].Score
		if a == nil || a.WantedSeconds != 60 || a.Kept != 0.95 || !strings.HasPrefix(a.Text, "95.0 % of the 60 s in which it wanted its min") {
			t.Errorf("a's score: %+v", a)
		}
	})
}

func TestSubscribe(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("a")
		seconds(10)
		ctx, cancel := context.WithCancel(t.Context())
		stream := h.Subscribe(ctx)
		first := <-stream
		if n := len(workloadIn(first, "a").Links[0].HistoryBps); n < 10 {
			t.Errorf("the first sample has %d seconds of history", n)
		}
		for range 3 {
			begin := time.Now()
			next := <-stream
			if d := time.Since(begin); d <= 0 || d > time.Second || workloadIn(next, "a").Links[0].HistoryBps != nil {
				t.Errorf("sample after %v", d)
			}
		}
		seconds(30) // without reading
		oldest := <-stream
		if age := time.Since(oldest.At); age > readers.Queue*time.Second {
			t.Errorf("a slow reader gets what is %v old", age)
		}
		cancel()
		synctest.Wait()
		for range stream { // ends, since the channel is closed
		}
		open := h.Subscribe(t.Context())
		h.stop()
		for range open {
		}
		h.start()
	})
}

func workloadIn(s api.Sample, name string) api.Workload {
	i := slices.IndexFunc(s.Workloads, func(w api.Workload) bool { return w.Name == name })
	return s.Workloads[i]
}

func BenchmarkSample(b *testing.B) {
	w := decide.World{Config: config.Config{Links: []config.Link{config.DefaultLink("eth0", 1e9)}}}
	for i := range 4000 {
		c := container(fmt.Sprintf("c%04d", i), "weir.weight=3")
		c.Devices[0].Ifindex = i
		w.Found = append(w.Found, c)
	}
	d := decide.Decide(w)
	l := &link{config: w.Config.Links[0], pacer: pace.New(policy.Egress, nil)}
	l.wants(d.Plans["eth0"])
	for b.Loop() {
		l.now = usage.Between(l.want, dataplane.LinkCounters{}, dataplane.LinkCounters{})
		moment{d, links{l}}.sample(event.Sight{}, false)
	}
}

// A link whose capacity is more than one root qdisc carries says so for as long as that is
// so, and the others do not.
func TestLockLimitIsInTheStatus(t *testing.T) {
	const text = "\nlinks: [{device: eth0, egress: 40gbit}, {device: eth1, egress: 1gbit}]"
	inBubble(t, text, func(t *testing.T, h *host) {
		h.lockLimit = func(l config.Link, backend string) string {
			if l.Egress <= 25e9 {
				return ""
			}
			return backend + " carries 25 Gbit/s"
		}
		h.start()
		warnings := func() (list []string) {
			st, err := h.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range st.Links {
				list = append(list, l.Warning)
			}
			return list
		}
		if got := warnings(); !slices.Equal(got, []string{"tc carries 25 Gbit/s", ""}) {
			t.Errorf("warnings %q", got)
		}
		h.reload(strings.Replace(text, "40gbit", "20gbit", 1))
		if got := warnings(); !slices.Equal(got, []string{"", ""}) {
			t.Errorf("with less capacity: %q", got)
		}
	})
}
