// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"time"
)

// historyLength is how many samples a Monitor remembers.
const historyLength = 60

// Monitor turns a counter of delivered payload into rates and keeps the last
// minute. The zero Monitor is ready.
type Monitor struct {
	at      time.Time
	payload uint64
	history []float64
}

// Take reads the counter, payload bytes since whenever, and returns the rate since
// it was last read, in bits per second; NaN the first time, and where the counter
// began anew.
func (m *Monitor) Take(at time.Time, payload uint64) float64 {
	seconds := at.Sub(m.at).Seconds()
	rate := math.NaN()
	if !m.at.IsZero() && seconds > 0 && payload >= m.payload {
		rate = 8 * float64(payload-m.payload) / seconds
		m.history = append(m.history, rate)
		if len(m.history) > historyLength {
			m.history = m.history[1:]
		}
	}
	m.at, m.payload = at, payload
	return rate
}

// History is the last minute, the oldest first.
func (m *Monitor) History() []float64 { return append([]float64(nil), m.history...) }

// Forget makes the next reading the first.
func (m *Monitor) Forget() { m.at = time.Time{} }
