// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"testing"

	"github.com/docker/docker/api/types/container"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzContainer: whatever an engine says of a container, what is kept of it is bounded.
func FuzzContainer(f *testing.F) {
	f.Add([]byte(`{"Id":"a","Names":["/web"],"Labels":{"weir.min":"1m"},"HostConfig":{"NetworkMode":"bridge"}}`))
	f.Add([]byte(`{"Id":"a","Name":"/web\u001b","Config":{"Labels":{"weir.min":"1m"}},"State":{"Running":true,"Pid":7}}`))
	boundtest.Seeds[[]byte](f, bound.Container, `{"Labels":{"weir.queues":"`, `{"Config":{"Labels":`, `{"Names":["/`)
	f.Fuzz(func(t *testing.T, text []byte) {
		boundtest.Hold(t, func() {
			var s container.Summary
			var r container.InspectResponse
			var list []Container
			if json.Unmarshal(text, &s) == nil {
				list = append(list, fromSummary(s))
			}
			if json.Unmarshal(text, &r) == nil && r.ContainerJSONBase != nil {
				list = append(list, fromInspection(r))
			}
			for _, c := range list {
				size := len(c.Name) + len(c.Project())
				for label, value := range c.Labels {
					size += len(label) + len(value)
				}
				if len(c.Labels) > bound.Labels+2 || size > (bound.Labels+4)*(bound.Label+bound.Name) || bound.Shown(c.Name) != c.Name {
					t.Errorf("%d labels, %d bytes, name %q", len(c.Labels), size, c.Name)
				}
			}
		})
	})
}
