// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"weir/internal/api"
	"weir/internal/config"
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
func storingOf(before, after config.Layer, was, is policy.Policy) storing {
	s := storing{stored: map[string]string{}, dropped: map[string]string{}}
	had, has := layerText(before), layerText(after)
	wasField, isField := policyFields(was), policyFields(is)
	for field, value := range has {
		if had[field] != value && reflect.DeepEqual(wasField[field], isField[field]) {
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
func layerText(l config.Layer) map[string]string {
	text := given(keepLayer(l).change())
	maps.DeleteFunc(text, func(field, value string) bool { return strings.HasSuffix(field, "queues") && value == "none" })
	return text
}

// policyFields returns the fields of a policy by their names in config.Names.
func policyFields(p policy.Policy) map[string]any {
	fields := map[string]any{}
	text, err := json.Marshal(api.PolicyOf(p))
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return nil
	}
	if ingress, ok := fields["ingress"].(map[string]any); ok {
		delete(fields, "ingress")
		for field, value := range ingress {
			fields["ingress."+field] = value
		}
	}
	return fields
}
