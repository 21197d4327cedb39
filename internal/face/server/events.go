// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/core/event"
)

// describeEvents has an OpenAPI document say which kinds of events there are, and what they
// mean.
func describeEvents(schemas huma.Registry) {
	schema := schemas.Schema(reflect.TypeFor[event.Event](), true, "")
	kind := schemas.SchemaFromRef(schema.Ref).Properties["kind"]
	var means strings.Builder
	means.WriteString("what kind of condition; a later version may have more")
	kind.Enum = nil
	for _, k := range event.Kinds {
		kind.Enum = append(kind.Enum, k.Name)
		fmt.Fprintf(&means, ". %s: %s", k.Name, k.Means)
	}
	kind.Description = means.String()
}
