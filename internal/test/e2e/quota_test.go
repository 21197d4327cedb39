// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"weir/internal/api"
)

// A workload that sends all it can is blocked at its quota, though the agent is killed ten times
// on the way; and what was counted is what the kernel sent.
func TestQuotaOfAKilledAgent(t *testing.T) {
	const size, kills = 100e6, 10
	b := newBed(t, 2, 1)
	b.configure("workloads:\n  w1: {quota: {egress: 100MB, per: month, timezone: UTC, then: block}}\n")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	a := b.start()
	b.steered(a)
	number := a.workload("w1").Class
	sent := func() float64 { return float64(class(b.counters(0), number).SentBytes) }
	b.flood(0, 1, 1.5)
	for n := range kills {
		// Half of it is left for an agent that takes seconds to start on a busy machine.
		until := size * 0.5 * (float64(n) + draw.Float64()) / kills
		await(t, time.Minute, "it has sent that", func() error {
			if s := sent(); s < until {
				return fmt.Errorf("%.1f of %.1f MB", s/1e6, until/1e6)
			}
			return nil
		})
		a.kill()
		time.Sleep(time.Duration(draw.IntN(300)) * time.Millisecond)
		a = b.start()
	}
	await(t, time.Minute, "the quota is reached", func() error {
		if q := a.workload("w1").Quota; q.State != api.QuotaReached {
			return fmt.Errorf("%+v", q)
		}
		return nil
	})
	at := sent()
	time.Sleep(3 * time.Second)
	end := sent()
	t.Logf("%.3f MB when it was blocked, %.3f MB 3 s later", at/1e6, end/1e6)
	if off := math.Abs(end/size - 1); off > 0.005 {
		t.Errorf("blocked at %.3f MB, %.2f %% off", end/1e6, 100*off)
	}
	if q := a.workload("w1").Quota; math.Abs(float64(q.SentBytes)-end) > 2000 {
		t.Errorf("%d bytes were counted, the kernel sent %.0f", q.SentBytes, end)
	}
	u, err := a.Usage(t.Context(), api.UsageQuery{Object: "w1"})
	if err != nil || len(u.Rows) != 1 || math.Abs(float64(u.Rows[0].SentBytes)-end) > 2000 {
		t.Errorf("usage %+v, %v", u, err)
	}
}
