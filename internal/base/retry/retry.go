// SPDX-License-Identifier: Apache-2.0

// Package retry spaces out attempts at something that fails.
//
//	pauses := retry.New(100*time.Millisecond, 5*time.Second)
//	for publish(ctx, m) != nil {
//		if !pauses.Wait(ctx) {
//			return ctx.Err()
//		}
//	}
//
// Pauses double from the first to the longest. Each lasts between half of its length and
// all of it, by chance: nodes that lost their manager at the same moment do not come back
// at the same moment. With 100 ms and 5 s they are 50 to 100 ms, 100 to 200 ms, ...,
// 2.5 to 5 s.
//
// The package does not count attempts and knows no final error: its callers end by their
// context, by a deadline or by what they are answered.
package retry

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Pauses are the waiting times between attempts at one thing. They are not safe for concurrent use.
type Pauses struct{ next backoff.ExponentialBackOff }

// New returns pauses that double from first to longest.
func New(first, longest time.Duration) *Pauses {
	// The library draws around its interval: 3/4 of a length and a third of that to either
	// side are 1/2 and 1 of it.
	return &Pauses{backoff.ExponentialBackOff{
		InitialInterval:     first * 3 / 4,
		MaxInterval:         longest * 3 / 4,
		Multiplier:          2,
		RandomizationFactor: 1. / 3,
	}}
}

// Next returns the length of the next pause.
func (p *Pauses) Next() time.Duration { return p.next.NextBackOff() }

// Reset makes the next pause the first one again, after an attempt that succeeded.
func (p *Pauses) Reset() { p.next.Reset() }

// Wait lasts for the next pause. It returns false at once if ctx ends meanwhile.
func (p *Pauses) Wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(p.Next()):
		return ctx.Err() == nil
	}
}
