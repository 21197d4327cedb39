// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// The values of columns in RFC 7047's notation: ["uuid", "550e..."] is a reference to a row,
// ["set", [1, 2]] a set, ["map", [["a", "b"]]] a map. A set of one may be written as its element.

// reference is the UUID of another row.
type reference string

func (r *reference) UnmarshalJSON(text []byte) error {
	if !pair(text, "uuid", (*string)(r)) {
		return errors.New("no reference to a row")
	}
	return nil
}

// set is a set of values, also of at most one.
type set[T any] []T

func (s *set[T]) UnmarshalJSON(text []byte) error {
	if list, ok := tagged(text, "set"); ok {
		return json.Unmarshal(list, (*[]T)(s))
	}
	*s = make(set[T], 1)
	return json.Unmarshal(text, &(*s)[0])
}

// only returns a set's one element, nil if it is empty.
func (s set[T]) only() *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// dictionary is a map of values.
type dictionary[K cmp.Ordered, V any] map[K]V

func (d *dictionary[K, V]) UnmarshalJSON(text []byte) error {
	var entries []entry[K, V]
	if !pair(text, "map", &entries) {
		return errors.New("no map")
	}
	*d = make(dictionary[K, V], len(entries))
	for _, e := range entries {
		(*d)[e.key] = e.value
	}
	return nil
}

// entry is one of a map.
type entry[K cmp.Ordered, V any] struct {
	key   K
	value V
}

func (e *entry[K, V]) UnmarshalJSON(text []byte) error {
	pair := [2]any{&e.key, &e.value}
	if err := json.Unmarshal(text, &pair); err != nil {
		return err
	}
	if pair[1] == nil {
		return errors.New("no entry of a map")
	}
	return nil
}

// pair reads a tag and the value behind it, and says whether it is that tag.
func pair(text []byte, tag string, value any) bool {
	read := [3]any{new(string), value} // null makes nil of an element
	if json.Unmarshal(text, &read) != nil || read[1] == nil || read[2] != nil {
		return false
	}
	is, ok := read[0].(*string)
	return ok && *is == tag
}

// tagged returns what stands behind the tag of a value.
func tagged(text []byte, tag string) (json.RawMessage, bool) {
	var pair [3]json.RawMessage // of more the rest is passed over
	if json.Unmarshal(text, &pair) != nil || pair[1] == nil || pair[2] != nil {
		return nil, false
	}
	return pair[1], string(pair[0]) == `"`+tag+`"`
}

// row writes a reference to a row that is there.
func row(id string) any { return []string{"uuid", id} }

// newRow writes a reference to a row that the same transaction makes.
func newRow(name string) any { return []string{"named-uuid", name} }

// atMostOne writes a set of none or one.
func atMostOne(value ...any) any { return []any{"set", append([]any{}, value...)} }

// writeMap writes a map, by key.
func writeMap[K cmp.Ordered, V any](m map[K]V) any {
	entries := [][]any{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		entries = append(entries, []any{k, m[k]})
	}
	return []any{"map", entries}
}
