// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/event"
)

// queue is how many samples a slow reader may lag behind.
const queue = 4

// readers are the subscribers to samples. They belong to the agent's goroutine.
type readers map[chan api.Sample]bool

// publish gives every reader the present sample; a reader that is too slow loses the oldest
// that it has not read, and gets the events of that one with the present one.
func (r readers) publish(now time.Time, m moment, events []event.Event) {
	if len(r) == 0 {
		return
	}
	sample := m.sample(now, false)
	sample.Events = events
	for reader := range r {
		select {
		case reader <- sample:
			continue
		default:
		}
		select {
		case lost := <-reader:
			late := sample
			late.Events = slices.Concat(lost.Events, events)
			reader <- late // there is room: only this goroutine sends
		default: // read in between
			reader <- sample
		}
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
