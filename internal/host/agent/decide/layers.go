// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"slices"

	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/labels"
	"weir/internal/host/discover"
)

// Where a field of a policy comes from, as in api.Workload.Origin.
const (
	OriginDefault = "default"
	OriginFound   = "found" // the group that a source says it is a part of, a pod's weight by its class
	OriginConfig  = "config"
	OriginLabel   = "label"
	OriginAsked   = "asked" // what was asked for it: by a pod's annotations, by the node that it came from
	OriginSet     = "set"
	OriginWhen    = "when" // the policy itself says it of this time
)

// stratum is a layer and its name.
type stratum struct {
	origin string
	layer  policy.Change
}

// foundLayer returns the layer with what a workload's source says of it: the group that it is a
// part of, if there is a group of that name, and a pod's weight. A compose project is said by a
// label, which may not say a group everywhere; then a sentence says so.
func (w World) foundLayer(found discover.Workload) (c policy.Change, problems []string) {
	if found.Group != "" && slices.Contains(w.GroupNames(), found.Group) {
		if why := labels.NoProject(found, w.Config.Labels); why != "" {
			return c, []string{why}
		}
		c.Set("group", func(p *policy.Policy) { p.Group = found.Group })
	}
	if found.Kind != workload.KindPod {
		return c, nil
	}
	if i := w.attachedAt(config.Attachment{Pod: found.ID, Name: found.Name}); i >= 0 && w.Attached[i].Weight != 0 {
		c.Set("weight", func(p *policy.Policy) { p.Weight = w.Attached[i].Weight })
	}
	return c, nil
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
