// SPDX-License-Identifier: Apache-2.0

// Package difference says which workloads and groups differ between two decisions, and in what
// fields of their policies. It consists of functions of values.
//
//	difference.All(before, after) // web: Was {"min": "none"}, Is {"min": "20mbit"}
package difference

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"weir/internal/api"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide"
)

// Difference is how the policy of a workload or group differs between two decisions.
type Difference struct {
	Key, Name string
	// Was and Is have the fields that differ, by their names in the API. A field that only one
	// of the two policies has is "none" in the other; of a workload that appears or goes, one
	// side is empty.
	Was, Is map[string]any
	Appears bool // it was not there before
	Goes    bool // it is there no longer
	ByLabel bool // labels say something of the policy, or said something of it before; not if it goes
}

// All returns the workloads and groups whose policy differs, sorted by key. One that
// appears or goes is among them if its policy says something.
func All(before, after decide.Decision) []Difference {
	was, is := before.ByKey(), after.ByKey()
	keys := maps.Clone(was)
	maps.Copy(keys, is)
	var list []Difference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if d := between(was[key], is[key]); d.Key != "" {
			list = append(list, d)
		}
	}
	return list
}

// Of returns how the policy of one workload or group differs, zero if it does not.
func Of(before, after decide.Decision, key string) Difference {
	return between(before.ByKey()[key], after.ByKey()[key])
}

// between returns how two rulings differ, zero if they do not. Either may be nil.
func between(was, is *decide.Ruling) Difference {
	if was == nil && is == nil || was != nil && is != nil && was.Kind == is.Kind && reflect.DeepEqual(was.Policy, is.Policy) {
		return Difference{} // found without the fields of either, since of many few differ
	}
	present := cmp.Or(is, was)
	d := Difference{Key: present.Key, Name: present.Name, Was: fieldsOf(was), Is: fieldsOf(is),
		Appears: was == nil, Goes: is == nil, ByLabel: is != nil && (labelled(was) || labelled(is))}
	onlyDifferent(d.Was, d.Is)
	if len(d.Was)+len(d.Is) == 0 {
		return Difference{}
	}
	return d
}

// labelled reports whether labels decide something of the policy. v may be nil.
func labelled(v *decide.Ruling) bool {
	if v == nil {
		return false
	}
	for _, origin := range v.Origin {
		if origin == decide.OriginLabel {
			return true
		}
	}
	return false
}

// fieldsOf returns the fields of a ruling's policy that say something, as the API has them.
// The workload that stands for Weir's own traffic has none, and neither has nil.
func fieldsOf(v *decide.Ruling) map[string]any {
	fields := map[string]any{}
	if v == nil || v.Kind == workload.KindOwn {
		return fields
	}
	text, err := json.Marshal(api.PolicyOf(v.Policy))
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return map[string]any{"unreadable": err.Error()}
	}
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == "" || value == nil })
	return fields
}

// onlyDifferent removes the parts that are equal in both, and puts "none" for a part that only one
// of two that are there has.
func onlyDifferent(was, is map[string]any) {
	appears, goes := len(was) == 0, len(is) == 0
	for _, field := range slices.Collect(maps.Keys(was)) {
		switch value, ok := is[field]; {
		case ok && reflect.DeepEqual(value, was[field]):
			delete(was, field)
			delete(is, field)
		case !ok && !goes:
			is[field] = "none"
		}
	}
	for field := range is {
		if _, ok := was[field]; !ok && !appears {
			was[field] = "none"
		}
	}
}
