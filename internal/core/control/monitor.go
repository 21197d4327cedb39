// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"slices"
	"time"
)

// historyLength is the number of samples that a Monitor remembers.
const historyLength = 60

// Monitor turns counters of delivered payload into a rate and keeps the last
// minute. The zero Monitor is ready.
type Monitor struct {
	at      time.Time
	payload []uint64
	rates   []float64
	history []float64
}

// Take reads the counters, payload bytes since whenever, and returns the rate of all
// together since they were last read, in bits per second; NaN the first time, and
// where a counter began anew.
func (m *Monitor) Take(at time.Time, payload ...uint64) float64 {
	seconds := at.Sub(m.at).Seconds()
	whole := !m.at.IsZero() && seconds > 0 && len(payload) == len(m.payload)
	rates := make([]float64, len(payload))
	total := math.NaN()
	for i := range payload {
		whole = whole && payload[i] >= m.payload[i]
	}
	if whole {
		total = 0
		for i := range payload {
			rates[i] = 8 * float64(payload[i]-m.payload[i]) / seconds
			total += rates[i]
		}
	}
	m.at, m.payload, m.rates = at, slices.Clone(payload), rates
	return total
}

// Last returns the rate of one counter alone at the last reading, bits per second.
func (m *Monitor) Last(counter int) float64 {
	if counter >= len(m.rates) {
		return 0
	}
	return m.rates[counter]
}

// Note remembers a goodput, bits per second.
func (m *Monitor) Note(goodput float64) {
	if math.IsNaN(goodput) {
		return
	}
	m.history = append(m.history, goodput)
	if len(m.history) > historyLength {
		m.history = m.history[1:]
	}
}

// History returns the goodputs of the last minute, the oldest first.
func (m *Monitor) History() []float64 { return slices.Clone(m.history) }

// Forget makes the next reading the first.
func (m *Monitor) Forget() { m.at = time.Time{} }
