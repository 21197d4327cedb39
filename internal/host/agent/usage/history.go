// SPDX-License-Identifier: Apache-2.0

package usage

import "weir/internal/core/plan"

// HistoryLength is the number of seconds whose rates are kept.
const HistoryLength = 60

// History has the rates of each class over the last minute. The zero value is
// ready.
type History struct {
	rings map[plan.ClassID]*ring
}

type ring struct {
	rates [HistoryLength]float64
	next  int
	full  bool
}

// Add notes the rates of one second and forgets the classes that are gone.
func (h *History) Add(used map[plan.ClassID]Class) {
	kept := make(map[plan.ClassID]*ring, len(used))
	for id, u := range used {
		r := h.rings[id]
		if r == nil {
			r = &ring{}
		}
		r.add(u.Rate)
		kept[id] = r
	}
	h.rings = kept
}

// Rest is Add of a second in which no class did anything, as in the second before.
func (h *History) Rest() {
	for _, r := range h.rings {
		r.add(0)
	}
}

func (r *ring) add(rate float64) {
	r.rates[r.next] = rate
	r.next = (r.next + 1) % HistoryLength
	r.full = r.full || r.next == 0
}

// Of returns the rates of one class, the oldest first; nil if none was noted.
func (h *History) Of(id plan.ClassID) []float64 {
	r := h.rings[id]
	if r == nil {
		return nil
	}
	var rates []float64
	if r.full {
		rates = append(rates, r.rates[r.next:]...)
	}
	return append(rates, r.rates[:r.next]...)
}
