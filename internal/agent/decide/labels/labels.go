// SPDX-License-Identifier: Apache-2.0

// Package labels reads the policy that a workload's labels ask for, and leaves out what they
// may not say. It is pure.
package labels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/closest"
	"weir/internal/cluster/wire"
	"weir/internal/invalid"
	"weir/internal/policy"
)

// prefix begins every label of Weir's.
const prefix = "weir."

// fields are the names of the fields of a policy.
var fields = policy.AllNames()

// knownLabels are the labels for fields, in the same order: "weir.limit-packets"
// for "limit_packets".
var knownLabels = func() []string {
	var labels []string
	for _, field := range fields {
		labels = append(labels, prefix+strings.ReplaceAll(field, "_", "-"))
	}
	return labels
}()

// labelLayer reads the labels of Weir's among a workload's. A label that cannot
// be read is left out and described in problems; the others count. Those of the
// cluster are no business of one host.
func labelLayer(labels map[string]string) (layer policy.Change, problems []string) {
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		if !strings.HasPrefix(label, prefix) || slices.Contains(wire.Labels, label) {
			continue
		}
		i := slices.Index(knownLabels, label)
		if i < 0 {
			problems = append(problems, unknownLabel(label))
			continue
		}
		if err := layer.Put(fields[i], labels[label]); err != nil {
			problems = append(problems, labelProblem(label, err))
		}
	}
	return layer, problems
}

func unknownLabel(label string) string {
	if near := closest.Words(label, knownLabels, 1); len(near) > 0 {
		return fmt.Sprintf("label %s is not known; did you mean %s?", label, near[0])
	}
	return fmt.Sprintf("label %s is not known; known: %s", label, strings.Join(knownLabels, ", "))
}

func labelProblem(label string, err error) string {
	var mistake *invalid.Error
	if errors.As(err, &mistake) {
		named := *mistake
		_, inside, _ := strings.Cut(mistake.Field+".", ".") // "queues.voice.rate"
		named.Field = strings.TrimSuffix("label "+label+"."+inside, ".")
		err = &named
	}
	return err.Error()
}

// Own returns the labels that are meant for Weir.
func Own(labels map[string]string) map[string]string {
	own := map[string]string{}
	for label, value := range labels {
		if strings.HasPrefix(label, prefix) {
			own[label] = value
		}
	}
	return own
}
