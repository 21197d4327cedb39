// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"path"
	"slices"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// Labels steer more than Weir: a reverse proxy publishes a container by them, a program of cron
// jobs runs commands in it. So of the labels that come from another node these stay: those of the
// cluster, those of Weir that say a field of Policy, those of compose where Policy has group, since
// a project is one, and what a pattern of Labels names. The others stay behind.

// Label reports whether a container may bring a label.
func (a Rules) Label(name string) bool {
	if slices.Contains(wire.Labels, name) {
		return true
	}
	if field, own := strings.CutPrefix(name, "weir."); own {
		field = strings.ReplaceAll(strings.TrimPrefix(field, "ingress."), "-", "_")
		return slices.Contains(policy.FieldNames(policy.OnWorkload), field) && a.says(field)
	}
	if strings.HasPrefix(name, "com.docker.compose.") && a.says("group") {
		return true
	}
	flat := strings.NewReplacer("/", "\x00") // of Match, a * ends at a slash
	return slices.ContainsFunc(a.Labels, func(pattern string) bool {
		fits, err := path.Match(flat.Replace(pattern), flat.Replace(name))
		return err == nil && fits
	})
}

// says reports whether a container may bring a field of a policy.
func (a Rules) says(field string) bool {
	if a.Policy == nil {
		return !policy.FieldOf(field).Guarded
	}
	return slices.Contains(a.Policy, field)
}

// KeptLabels returns the labels that a container brings. One that its image has too would come back
// by the image, so it is there without a value.
func (a Rules) KeptLabels(labels, image map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range labels {
		if a.Label(name) {
			kept[name] = value
		}
	}
	for name := range image {
		if !a.Label(name) {
			kept[name] = ""
		}
	}
	return kept
}
