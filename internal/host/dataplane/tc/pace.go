// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"context"

	"weir/internal/core/plan"
)

// Pace takes the intervals of classes for the next step of Run. HTB has no service
// times, but a ceil lets through as much on average. Queues have none here.
func (b *Backend) Pace(_ context.Context, want plan.State) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.want = want
	for _, class := range workloads(want) {
		if known := b.classes[class.ID]; known != nil {
			known.sharer.Max = class.Ceiling()
		}
	}
	return nil
}
