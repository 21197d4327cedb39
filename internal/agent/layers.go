// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"weir/internal/config"
	"weir/internal/policy"
)

// Where a field of a policy comes from, as in api.Workload.Origin.
const (
	originDefault = "default"
	originConfig  = "config"
	originLabel   = "label"
	originSet     = "set"
)

// stratum is a layer and its name.
type stratum struct {
	origin string
	layer  config.Layer
}

// merge puts layers over the default policy, the later over the earlier, and
// says of each field where it comes from.
func merge(strata ...stratum) (policy.Policy, map[string]string) {
	p := policy.Default()
	origin := map[string]string{}
	for _, field := range config.Fields {
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
