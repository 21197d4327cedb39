// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"context"
	"math"

	"weir/internal/plan"
	"weir/internal/policy"
)

// ceiling is what a class never exceeds: its max, or the rate at which it is paced.
// HTB has no service times, but a ceil lets through as much on average.
func ceiling(c plan.Class) policy.Rate {
	paced := policy.Rate(math.Round(c.Interval.Rate()))
	if c.Max == 0 || paced != 0 && paced < c.Max {
		return paced
	}
	return c.Max
}

// Pace takes the intervals of classes for the next step of Run. Queues have none
// here.
func (b *Backend) Pace(_ context.Context, want plan.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.want = want
	for _, class := range workloads(want) {
		if known := b.classes[class.ID]; known != nil {
			known.claim.Max = ceiling(class)
		}
	}
	return nil
}
