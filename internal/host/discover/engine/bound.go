// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"strings"

	"weir/internal/core/bound"
)

// beginning is how much is kept of a label that is too long to be read.
const beginning = 40

// bounded returns the labels that matter here, as far as they are within the bounds: one more than
// bound.Labels, so that its reader sees that there are too many; of a label of more than
// bound.Label bytes the beginning, and in oversize its length. Labels of others, which the
// engine takes without a bound, are not kept.
func bounded(labels map[string]string) (kept map[string]string, oversize map[string]int) {
	kept = map[string]string{}
	names := slices.DeleteFunc(slices.Collect(maps.Keys(labels)), func(name string) bool {
		return !matters(name) || len(name) > bound.Name
	})
	slices.Sort(names)
	for _, name := range names[:min(len(names), bound.Labels+2)] { // the compose project's is none of Weir's
		value := labels[name]
		if len(value) > bound.Label {
			if oversize == nil {
				oversize = map[string]int{}
			}
			oversize[name], value = len(value), value[:beginning]
		}
		kept[name] = strings.Clone(value) // not a part of the engine's whole answer
	}
	return kept, oversize
}
