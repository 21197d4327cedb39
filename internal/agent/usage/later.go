// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"
	"fmt"
	"reflect"

	"weir/internal/api"
)

// Later returns the changes of a workload's or group's times and quota, from the fields of
// its policy that differ (difference.Difference). They stand in no plan before they are due,
// so that the changes of the links do not have them.
func Later(name string, was, is map[string]any, why string) []api.Change {
	wasIngress, _ := was["ingress"].(map[string]any)
	isIngress, _ := is["ingress"].(map[string]any)
	return append(laterFields(name, was, is, why), laterFields(name+" (ingress)", wasIngress, isIngress, why)...)
}

func laterFields(name string, was, is map[string]any, why string) (list []api.Change) {
	for _, field := range []string{"quota", "when"} {
		if reflect.DeepEqual(was[field], is[field]) {
			continue
		}
		what := fmt.Sprintf("%s: %s %v -> %v", name, field, cmp.Or(was[field], any("none")), cmp.Or(is[field], any("none")))
		list = append(list, api.Change{What: what, Why: why})
	}
	return list
}
