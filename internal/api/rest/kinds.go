// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/core/refusal"
)

// describeKinds has an OpenAPI document say which kinds of refusal there are, and what they
// mean.
func describeKinds(schemas huma.Registry) {
	problem := schemas.Schema(reflect.TypeFor[api.ProblemDetails](), true, "")
	kind := schemas.SchemaFromRef(problem.Ref).Properties["kind"]
	var means strings.Builder
	means.WriteString("kind of refusal; a program treats a kind that it does not know by its status")
	kind.Enum = nil
	for _, r := range refusal.Kinds {
		kind.Enum = append(kind.Enum, string(r.Kind))
		fmt.Fprintf(&means, ". %s: %s", r.Kind, r.Means)
	}
	kind.Description = means.String()
}
