// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"weir/internal/core/policy"
	"weir/internal/lab/meter"
)

// measure begins to count what the server receives in network n.
func (b *bed) measure(n, workloads int) {
	b.t.Helper()
	m, err := meter.New(meter.Config{
		FirstAddress: binary.BigEndian.Uint32(workloadAt(n, 1).ip), Workloads: workloads, Length: meterLength,
	})
	if err != nil {
		b.t.Fatalf("count what arrives: %v", err)
	}
	b.t.Cleanup(m.Close)
	b.nets[n].meter = m
	b.watch(n)
}

// watch has the meter count at the server's present device in network n.
func (b *bed) watch(n int) {
	b.t.Helper()
	index := b.srv.device(fmt.Sprintf("eth%d", n)).Attrs().Index
	if err := b.srv.do(func() error { return b.nets[n].meter.Attach(index) }); err != nil {
		b.t.Fatalf("count what arrives: %v", err)
	}
}

// rates returns the rate at which the server receives from each workload in network n
// over the next window, in wire Mbit/s.
func (b *bed) rates(n int, window time.Duration) []float64 {
	b.t.Helper()
	m := b.nets[n].meter
	from := m.Align(meter.Now())
	<-time.After(from + window - meter.Now() + 20*time.Millisecond)
	timeline, err := m.Read(from)
	if err != nil {
		b.t.Fatal(err)
	}
	buckets := int(window / (10 * time.Millisecond))
	rates := make([]float64, len(timeline.Bytes))
	for w, bytes := range timeline.Bytes {
		for _, n := range bytes[:buckets] {
			rates[w] += float64(n) * 8 / window.Seconds() / 1e6
		}
	}
	return rates
}

// full returns rates at a time at which the senders fill the link. In the virtual
// machine, where nothing else runs, that is always; another machine may not have the CPU
// time for them this very second.
func (b *bed) full(n int, window time.Duration) []float64 {
	b.t.Helper()
	for try := 1; ; try++ {
		rates, total := b.rates(n, window), 0.0
		for _, r := range rates {
			total += r
		}
		if onBPF() || total > 0.985*float64(b.capacity)/1e6 || try == 5 {
			return rates
		}
		b.t.Logf("the senders did not fill the link: %s", inMbit(rates))
	}
}

// warmUp gives TCP time to find its rate, and the tc fallback time to learn who
// wants how much.
func (b *bed) warmUp() {
	b.t.Helper()
	settle := time.Second
	if !onBPF() {
		settle = 3 * time.Second
	}
	<-time.After(settle)
}

// same fails the test if a workload's rate differs from what it should be by
// more than a share of the link's capacity.
func (b *bed) same(what string, got, want []float64, within float64) {
	b.t.Helper()
	link := float64(b.capacity) / 1e6
	worst := 0.0
	for i := range want {
		worst = max(worst, got[i]-want[i], want[i]-got[i])
	}
	b.t.Logf("%-28s %s, off by %.2f %% of the link at most", what+":", inMbit(got), 100*worst/link)
	if worst > within*link {
		b.t.Errorf("%s: rates are %s, should be %s within %.0f %% of %.0f Mbit/s", what, inMbit(got), inMbit(want), 100*within, link)
	}
}

func inMbit(rates []float64) string {
	var words []string
	for _, r := range rates {
		words = append(words, fmt.Sprintf("%.2f", r))
	}
	return strings.Join(words, " / ") + " Mbit/s"
}

// ideal returns the contract's division among workloads that send all they can.
func (b *bed) ideal(policies ...policy.Policy) []float64 {
	b.t.Helper()
	var sharers []policy.Sharer
	for _, p := range policies {
		sharer, err := p.Sharer(b.capacity)
		if err != nil {
			b.t.Fatal(err)
		}
		sharers = append(sharers, sharer)
	}
	var rates []float64
	for _, share := range policy.Divide(b.capacity, sharers).Shares {
		rates = append(rates, share.Bps/1e6)
	}
	return rates
}
