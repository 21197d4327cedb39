// SPDX-License-Identifier: Apache-2.0

// Package readers hands the samples of an agent to those who subscribed to them. A reader that is
// slow loses samples and no events, and holds up no other.
//
//	reader := r.Join(first)       // then it has one sample
//	r.Publish(newSample, events)  // once a second
package readers

import (
	"slices"

	"weir/internal/api"
	"weir/internal/core/event"
)

// Queue is how many samples a slow reader may lag behind.
const Queue = 4

// Readers are the subscribers to samples. They belong to one goroutine.
type Readers map[chan api.Sample]bool

// Join adds a reader whose first sample this is.
func (r Readers) Join(first api.Sample) chan api.Sample {
	reader := make(chan api.Sample, Queue)
	reader <- first
	r[reader] = true
	return reader
}

// Publish gives every reader the present sample, which is made only if there is a reader. One
// that is too slow loses the oldest that it has not read, and gets the events of that one with
// the present one.
func (r Readers) Publish(present func() api.Sample, events []event.Event) {
	if len(r) == 0 {
		return
	}
	sample := present()
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

// Remove ends a reader.
func (r Readers) Remove(reader chan api.Sample) {
	delete(r, reader)
	close(reader)
}

// Close ends all readers.
func (r Readers) Close() {
	for reader := range r {
		r.Remove(reader)
	}
}
