// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"strings"

	"weir/internal/api"
	"weir/internal/policy"
)

// storing says what a request stores or drops of what is set at run time, beside the
// changes of the kernel that follow from it.
type storing struct {
	stored  map[string]string // see api.ChangeResult
	dropped map[string]string
}

// storingOf compares what was set at run time before a request and after it. was and
// is are the policies in force before and after.
func storingOf(before, after policy.Change, was, is policy.Policy) storing {
	s := storing{stored: map[string]string{}, dropped: map[string]string{}}
	had, has := layerText(before), layerText(after)
	for field, value := range has {
		if had[field] != value && policy.Same(field, was, is) {
			s.stored[field] = value
		}
	}
	for field, value := range had {
		if _, kept := has[field]; !kept {
			s.dropped[field] = value
		}
	}
	return s
}

// put adds what was stored and dropped to an answer.
func (s storing) put(r *api.ChangeResult) {
	if len(s.stored) > 0 {
		r.Stored = s.stored
	}
	if len(s.dropped) > 0 {
		r.Dropped = s.dropped
	}
}

// layerText returns the fields of a layer as a person writes them. Queues that only
// follow from a discipline without any are left out.
func layerText(l policy.Change) map[string]string {
	text := l.Texts()
	maps.DeleteFunc(text, func(field, value string) bool { return strings.HasSuffix(field, "queues") && value == "none" })
	return text
}
