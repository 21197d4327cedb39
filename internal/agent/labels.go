// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/policy"
)

// labelPrefix begins every label of Weir's.
const labelPrefix = "weir."

// labelOf is the label for a field of a policy: "weir.limit-packets".
func labelOf(field string) string {
	return labelPrefix + strings.ReplaceAll(field, "_", "-")
}

// labelLayer reads the labels of Weir's among a workload's. A label that cannot
// be read is left out and described in problems; the others count.
func labelLayer(labels map[string]string) (layer config.Layer, problems []string) {
	fields := map[string]string{}
	var known []string
	for _, field := range config.Fields {
		fields[labelOf(field)] = field
		known = append(known, labelOf(field))
	}
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if !strings.HasPrefix(label, labelPrefix) {
			continue
		}
		field, ok := fields[label]
		if !ok {
			problem := fmt.Sprintf("label %s is not known; known: %s", label, strings.Join(known, ", "))
			if near := config.Closest(label, known, 1); len(near) > 0 {
				problem = fmt.Sprintf("label %s is not known; did you mean %s?", label, near[0])
			}
			problems = append(problems, problem)
			continue
		}
		if err := layer.Put(field, labels[label]); err != nil {
			problems = append(problems, labelProblem(label, err))
		}
	}
	return layer, problems
}

func labelProblem(label string, err error) string {
	var mistake *policy.Error
	if errors.As(err, &mistake) {
		named := *mistake
		named.Field = "label " + label
		err = &named
	}
	return err.Error()
}

// ownLabels are the labels that labelLayer looks at.
func ownLabels(labels map[string]string) map[string]string {
	own := map[string]string{}
	for label, value := range labels {
		if strings.HasPrefix(label, labelPrefix) {
			own[label] = value
		}
	}
	return own
}
