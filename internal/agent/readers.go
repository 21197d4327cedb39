// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"weir/internal/api"
)

// queue is how many samples a slow reader may lag behind.
const queue = 4

// readers are the subscribers to samples. They belong to the agent's goroutine.
type readers map[chan api.Sample]bool

// publish gives every reader the present sample; a reader that is too slow loses the oldest
// that it has not read.
func (r readers) publish(now time.Time, m moment) {
	if len(r) == 0 {
		return
	}
	sample := m.sample(now, false)
	for reader := range r {
		select {
		case reader <- sample:
			continue
		default:
		}
		select {
		case <-reader:
		default: // read in between
		}
		reader <- sample // there is room: only this goroutine sends
	}
}

func (r readers) remove(reader chan api.Sample) {
	delete(r, reader)
	close(reader)
}

func (r readers) close() {
	for reader := range r {
		r.remove(reader)
	}
}
