// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"

	"weir/internal/api"
	"weir/internal/core/closest"
)

// fieldNames are the names of all fields and query parameters that requests have.
var fieldNames = sync.OnceValue(func() []string {
	var names []string
	for _, t := range []reflect.Type{
		reflect.TypeFor[api.AttachRequest](),
		reflect.TypeFor[api.ControlChange](), reflect.TypeFor[api.TuneRequest](), reflect.TypeFor[api.Packet](),
	} {
		for i := range t.NumField() {
			tag := t.Field(i).Tag
			name, _, _ := strings.Cut(cmp.Or(tag.Get("json"), tag.Get("query")), ",")
			names = append(names, name)
		}
	}
	names = append(append(names, "dry_run"), api.RequestFields()...)
	slices.Sort(names)
	return slices.Compact(names)
})

// remedyFor says what to do about a finding of huma's validation: which field was
// probably meant where one is not known, else where the right ones stand.
func remedyFor(field, text string) string {
	const document = "see /openapi.json for the expected form"
	if !strings.HasPrefix(text, "unexpected property") && !strings.HasPrefix(text, "unknown query") {
		return document
	}
	last := field[strings.LastIndexByte(field, '.')+1:]
	if near := closest.Words(last, fieldNames(), 2); len(near) > 0 {
		return "did you mean " + strings.Join(near, " or ") + "?"
	}
	return document
}
