// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
)

// published are the schemas of the OpenAPI document that have another name than their types:
// programs are generated from the document, so a name that it had once stays.
var published = map[reflect.Type]string{
	reflect.TypeFor[api.Edit]():           "Change",
	reflect.TypeFor[api.ProblemDetails](): "Problem",
}

// schemaName returns the name of a type's schema.
func schemaName(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := published[t]; ok {
		return name
	}
	return huma.DefaultSchemaNamer(t, hint)
}
