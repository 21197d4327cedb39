// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"

	"weir/internal/discover"
	"weir/internal/policy"
)

// Where a field of a policy comes from, as in api.Workload.Origin.
const (
	originDefault = "default"
	originFound   = "found" // the group that a source says it is a part of
	originConfig  = "config"
	originLabel   = "label"
	originSet     = "set"
)

// stratum is a layer and its name.
type stratum struct {
	origin string
	layer  policy.Change
}

// foundLayer is the group of the name that a workload's source says it is a part
// of, if there is one.
func (w world) foundLayer(found discover.Workload) policy.Change {
	if found.Group == "" || !slices.Contains(w.groupNames(), found.Group) {
		return policy.Change{}
	}
	return policy.ChangeTo(policy.Policy{Group: found.Group}, "group")
}

// merge puts layers over the default policy, the later over the earlier, and
// says of each field where it comes from; of ingress only those that somebody
// spoke of.
func merge(strata ...stratum) (policy.Policy, map[string]string) {
	p := policy.Default()
	origin := map[string]string{}
	for _, field := range policy.FieldNames(policy.OnWorkload) {
		origin[field] = originDefault
	}
	for _, s := range strata {
		p = s.layer.Apply(p)
		for _, field := range s.layer.Given() {
			origin[field] = s.origin
		}
	}
	return p, origin
}
