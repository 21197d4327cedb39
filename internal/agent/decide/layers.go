// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"slices"

	"weir/internal/discover"
	"weir/internal/policy"
)

// Where a field of a policy comes from, as in api.Workload.Origin.
const (
	OriginDefault = "default"
	OriginFound   = "found" // the group that a source says it is a part of
	OriginConfig  = "config"
	OriginLabel   = "label"
	OriginSet     = "set"
	OriginWhen    = "when" // the policy itself says it of this time
)

// stratum is a layer and its name.
type stratum struct {
	origin string
	layer  policy.Change
}

// foundLayer returns the layer with the group that a workload's source says it is a part of,
// if there is a group of that name.
func (w World) foundLayer(found discover.Workload) policy.Change {
	if found.Group == "" || !slices.Contains(w.GroupNames(), found.Group) {
		return policy.Change{}
	}
	return policy.ChangeTo(policy.Policy{Group: found.Group}, "group")
}

// ofDefault are the origins of a policy's fields where no layer says anything.
var ofDefault = func() map[string]string {
	origin := map[string]string{}
	for _, field := range policy.FieldNames(policy.OnWorkload) {
		origin[field] = OriginDefault
	}
	return origin
}()

// merge puts layers over the default policy, the later over the earlier, and
// says of each field where it comes from; of ingress only those that a layer gives.
func merge(strata ...stratum) (policy.Policy, map[string]string) {
	p := policy.Default()
	origin := maps.Clone(ofDefault)
	for _, s := range strata {
		p = s.layer.Apply(p)
		for _, field := range s.layer.Given() {
			origin[field] = s.origin
		}
	}
	return p, origin
}
