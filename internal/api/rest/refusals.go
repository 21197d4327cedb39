// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"maps"
	"sync"

	"weir/internal/core/refusal"
)

// The values of the label kind of the metric weir_refusals_total.
const (
	RefusedInput    = "input"    // a value, a field or the request itself is wrong
	RefusedUnknown  = "unknown"  // nothing has that name
	RefusedConflict = "conflict" // no room for a min, a name that is taken, what the backend cannot hold
	RefusedRole     = "role"     // asked by the socket of the role view
	RefusedBusy     = "busy"     // too much is under way, or the program is ending
	RefusedFailed   = "failed"   // it was tried and went wrong
)

// series are the series of weir_refusals_total by the kind of the refusal; a kind that is
// missing here counts as the one that it is a case of.
var series = map[refusal.Kind]string{
	refusal.Invalid:  RefusedInput,
	refusal.Unknown:  RefusedUnknown,
	refusal.Conflict: RefusedConflict,
	refusal.Denied:   RefusedRole,
	refusal.TooMany:  RefusedBusy,
	refusal.Busy:     RefusedBusy,
	refusal.Failed:   RefusedFailed,
}

// refusals counts the requests for a change that were not granted, dry runs aside.
type refusals struct {
	mu    sync.Mutex
	kinds map[string]uint64
}

// count notes that a request for a change was refused.
func (r *refusals) count(k refusal.Kind) {
	name, ok := refusal.In(series, k)
	if !ok {
		name = RefusedFailed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds = map[string]uint64{}
	}
	r.kinds[name]++
}

// Refusals returns the number of refused requests for a change since the program was
// started, by kind. It has every kind, so that a series exists before it rises.
func (a *API) Refusals() map[string]uint64 {
	all := map[string]uint64{RefusedInput: 0, RefusedUnknown: 0, RefusedConflict: 0, RefusedRole: 0, RefusedBusy: 0, RefusedFailed: 0}
	a.refused.mu.Lock()
	defer a.refused.mu.Unlock()
	maps.Copy(all, a.refused.kinds)
	return all
}
