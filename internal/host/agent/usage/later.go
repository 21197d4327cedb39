// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"weir/internal/api"
)

// Later returns the changes of a workload's or group's times and quota, from the fields of
// its policy that differ (difference.Difference). They stand in no plan before they are due,
// so that the changes of the links do not have them.
func Later(name string, was, is map[string]any, why string) []api.Edit {
	wasIngress, _ := was["ingress"].(map[string]any)
	isIngress, _ := is["ingress"].(map[string]any)
	return append(laterFields(name, was, is, why), laterFields(name+" (ingress)", wasIngress, isIngress, why)...)
}

func laterFields(name string, was, is map[string]any, why string) (list []api.Edit) {
	for _, field := range []string{"quota", "when"} {
		if reflect.DeepEqual(was[field], is[field]) {
			continue
		}
		what := fmt.Sprintf("%s: %s %v -> %v", name, field, cmp.Or(was[field], any("none")), cmp.Or(is[field], any("none")))
		list = append(list, api.Edit{What: what, Why: why})
	}
	return list
}

// Unplanned returns the change of a policy that no link has in its plan, because there is no
// link: "web: max none -> 7mbit". was and is are as in Later; a workload that appears or goes
// has one of them empty.
func Unplanned(name string, was, is map[string]any, why string) []api.Edit {
	what := ""
	switch {
	case len(was) == 0 && len(is) == 0:
		return nil
	case len(was) == 0:
		what = "add " + name
	case len(is) == 0:
		what = "remove " + name
	default:
		var fields []string
		for _, field := range slices.Sorted(maps.Keys(is)) {
			text := field
			if asText(was[field])+asText(is[field]) != "" {
				text = fmt.Sprintf("%s %s -> %s", field, asText(was[field]), asText(is[field]))
			}
			fields = append(fields, text)
		}
		what = name + ": " + strings.Join(fields, ", ")
	}
	return []api.Edit{{What: what, Why: why + "; in force once a link is steered"}}
}

// asText returns a value in a line, "" if it takes more.
func asText(value any) string {
	switch reflect.ValueOf(value).Kind() {
	case reflect.Map, reflect.Slice, reflect.Invalid:
		return ""
	}
	return fmt.Sprint(value)
}
