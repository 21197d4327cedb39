// SPDX-License-Identifier: Apache-2.0

// Package labels reads the policy that a workload's labels ask for. Labels that come with an image
// count only with `labels: {images: true}`, and of the others those that `labels: {allow: [...]}`
// names; package ceiling holds them to what the administrator gives. A label that does not count
// is left out, with a sentence; the others hold. It is pure.
package labels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/core/bound"
	"weir/internal/core/closest"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/texts"
	"weir/internal/core/wire"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/ceiling"
	"weir/internal/host/discover"
	"weir/internal/host/discover/engine"
)

// Read returns what the labels of a workload ask for, as rules of the host let them, and a sentence
// for each label that cannot be read or comes with the image. kept has what was read before; nil =
// nothing.
func Read(found discover.Workload, rules config.Labels, kept *texts.Kept) (ceiling.Ask, []string) {
	labels, problems := ofContainer(found, rules)
	layer, unread := labelLayer(labels, found.Oversize, kept)
	return ceiling.Ask{Policy: layer, Called: called, Forbids: func(field string) string {
		if rules.Allows(field) {
			return ""
		}
		return fmt.Sprintf("labels may not say %[1]s here; allow it in weir.yaml, labels: {allow: [..., %[1]s]}, or use weir set", strings.TrimPrefix(field, "ingress."))
	}}, append(problems, unread...)
}

// NoProject returns why a container is not in the group that is called like its compose project, ""
// if it is. The project is a label, so it says a group only where labels may.
func NoProject(found discover.Workload, rules config.Labels) string {
	if found.Kind != workload.KindDocker || rules.Allows("group") {
		return ""
	}
	return fmt.Sprintf("label %s does not put it into group %s: labels may not say group here; allow it in weir.yaml, labels: {allow: [..., group]}, or use weir set", engine.ComposeProject, found.Group)
}

// called returns the label for a field: "label weir.limit-packets" for "limit_packets".
func called(field string) string { return "label " + knownLabels[slices.Index(fields, field)] }

// ofContainer returns the labels without those that the image has given to the container.
func ofContainer(found discover.Workload, rules config.Labels) (labels map[string]string, problems []string) {
	if rules.Images {
		return found.Labels, nil
	}
	labels = maps.Clone(found.Labels)
	var baked []string
	for _, label := range slices.Sorted(maps.Keys(found.ImageLabels)) {
		if value, has := labels[label]; has && value == found.ImageLabels[label] && slices.Contains(knownLabels, label) {
			delete(labels, label)
			baked = append(baked, label)
		}
	}
	if len(baked) > 0 {
		problems = append(problems, fmt.Sprintf("labels %s do not count: they come with the image; give them to the container, or allow those of images in weir.yaml, labels: {images: true}", strings.Join(baked, ", ")))
	}
	return labels, problems
}

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

// labelLayer reads the labels of Weir's among a workload's, at most bound.Labels of them, and of
// each at most bound.Label bytes. A label that cannot be read is left out and described in
// problems; the others count. Those of the cluster are no business of one host. An empty label
// says nothing: so a container takes back what its image says, and max stays what it is.
func labelLayer(labels map[string]string, oversize map[string]int, kept *texts.Kept) (layer policy.Change, problems []string) {
	own := slices.DeleteFunc(slices.Sorted(maps.Keys(labels)), func(label string) bool {
		return !strings.HasPrefix(label, prefix) || slices.Contains(wire.Labels, label) || strings.TrimSpace(labels[label]) == "" && oversize[label] == 0
	})
	if count := len(own); count > bound.Labels {
		own = own[:bound.Labels]
		problems = append(problems, fmt.Sprintf("%d labels of Weir's, %d are the most: none behind %s counts; take some away", count, bound.Labels, shown(own[bound.Labels-1])))
	}
	for _, label := range own {
		i := slices.Index(knownLabels, label)
		if i < 0 {
			problems = append(problems, unknownLabel(label))
			continue
		}
		if err := bound.Length("label "+label, max(len(labels[label]), oversize[label]), bound.Label); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		if err := kept.Put(&layer, fields[i], labels[label]); err != nil {
			problems = append(problems, labelProblem(label, err))
		}
	}
	return layer, fewer(problems)
}

// mostProblems are described of one workload's labels; of the rest there is the number.
const mostProblems = 20

// fewer returns the first of many problems, and how many there are besides.
func fewer(problems []string) []string {
	if more := len(problems) - mostProblems; more > 0 {
		return append(problems[:mostProblems:mostProblems], fmt.Sprintf("%d more problems with labels", more))
	}
	return problems
}

// shown returns the name of a label of any length and of any bytes as it is shown.
func shown(label string) string { return wire.Clip(strings.ToValidUTF8(label, "?"), 64) }

func unknownLabel(label string) string {
	if near := closest.Words(label, knownLabels, 1); len(near) > 0 {
		return fmt.Sprintf("label %s is not known; did you mean %s?", shown(label), near[0])
	}
	return fmt.Sprintf("label %s is not known; known: %s", shown(label), strings.Join(knownLabels, ", "))
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
