// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"maps"
	"net/http"
	"sync"
)

// Kinds of refusal, as the metric weir_refusals_total names them.
const (
	RefusedInput    = "input"    // a value, a field or the request itself is wrong
	RefusedUnknown  = "unknown"  // nothing has that name
	RefusedConflict = "conflict" // no room for a min, a name that is taken, what the backend cannot hold
	RefusedRole     = "role"     // asked by the socket of those who may only look
	RefusedBusy     = "busy"     // too much is under way, or the program is ending
	RefusedFailed   = "failed"   // it was tried and went wrong
)

// refusals counts the requests for a change that were not granted, dry runs aside.
type refusals struct {
	mu    sync.Mutex
	kinds map[string]uint64
}

// count notes how a request for a change ended.
func (r *refusals) count(status int) {
	kind := kindOf(status)
	if kind == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds == nil {
		r.kinds = map[string]uint64{}
	}
	r.kinds[kind]++
}

// kindOf is the kind of refusal that a status stands for, "" if it is none.
func kindOf(status int) string {
	switch {
	case status < http.StatusBadRequest:
		return ""
	case status == http.StatusNotFound:
		return RefusedUnknown
	case status == http.StatusConflict:
		return RefusedConflict
	case status == http.StatusForbidden:
		return RefusedRole
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
		return RefusedBusy
	case status >= http.StatusInternalServerError:
		return RefusedFailed
	}
	return RefusedInput
}

// Refusals is how many requests for a change were not granted since the program was
// started, by kind. Every kind is there, so that a series exists before it rises.
func (a *API) Refusals() map[string]uint64 {
	all := map[string]uint64{RefusedInput: 0, RefusedUnknown: 0, RefusedConflict: 0, RefusedRole: 0, RefusedBusy: 0, RefusedFailed: 0}
	a.refused.mu.Lock()
	defer a.refused.mu.Unlock()
	maps.Copy(all, a.refused.kinds)
	return all
}
