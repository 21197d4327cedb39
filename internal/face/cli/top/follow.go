// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"time"

	"weir/internal/api"
)

// Stream calls fn with each sample until ctx ends, fn fails or the agent goes
// away; api.Client.Stream is one.
type Stream func(ctx context.Context, fn func(api.Sample) error) error

// retryAfter is the pause before the next search for a lost agent, which has to be back
// in view within 2 s of its return.
const retryAfter = 500 * time.Millisecond

// follow keeps a stream going over restarts of the agent. Before the first
// sample a failure is final: then there is no agent to wait for. Later lost is
// told, once per loss. stop, if given by onSample, ends it.
func follow(ctx context.Context, stream Stream, onSample func(api.Sample) error, lost func(error)) error {
	var seen, stopped, told bool
	for {
		err := stream(ctx, func(s api.Sample) error {
			seen, told = true, false
			err := onSample(s)
			stopped = err != nil
			return err
		})
		if ctx.Err() != nil || stopped || !seen {
			return err
		}
		if !told {
			told = true
			lost(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryAfter):
		}
	}
}
