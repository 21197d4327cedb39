// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/json"
	"testing"
	"weir/internal/core/accept"

	"weir/internal/cluster/migrate"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzExamine: whatever a source says of its container, judging it is bounded, and so is what is
// found.
func FuzzExamine(f *testing.F) {
	r, _ := honest()
	text, err := json.Marshal(config{Inspect: r})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	boundtest.Seeds[[]byte](f, bound.Description, `{"Inspect":{"Config":{"Labels":`, `{"Inspect":`, `{"Inspect":{"HostConfig":{"Binds":[`, `{"Inspect":{"Mounts":[`)
	f.Fuzz(func(t *testing.T, text []byte) {
		boundtest.Hold(t, func() {
			o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachLayer, Container: migrate.Container{Name: "web", Config: text}}
			size := 0
			for _, finding := range examine(o, accept.Rules{}, target) {
				size += len(finding.String())
			}
			if size > 20*len(text)+100000 {
				t.Errorf("%d bytes of findings about %d", size, len(text))
			}
		})
	})
}
