// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"weir/internal/core/accept"

	"weir/internal/cluster/migrate"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// TestDrawnContainers: 10,000 containers that come from another node with labels, names, paths
// and environment drawn at random. Judging one costs what one input may.
func TestDrawnContainers(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 4))
	for range 10000 {
		most := bound.Description >> r.IntN(12) / 4
		inspect, c := honest()
		inspect.Config.Labels = map[string]string{"weir." + boundtest.Draw(r, most): boundtest.Draw(r, most), "com.docker.swarm." + boundtest.Draw(r, 100): "x"}
		switch r.IntN(4) {
		case 0:
			inspect.HostConfig.Binds = append(inspect.HostConfig.Binds, boundtest.Draw(r, most))
		case 1:
			inspect.Config.Env = append(inspect.Config.Env, boundtest.Draw(r, most))
		case 2:
			c.Name, inspect.Name = boundtest.Draw(r, most), "/"+boundtest.Draw(r, most)
		}
		text, err := json.Marshal(config{Inspect: inspect})
		if err != nil {
			t.Fatal(err)
		}
		c.Config = text
		o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachLayer, Container: c}
		boundtest.Hold(t, func() { examine(o, accept.Rules{}, target) })
		if t.Failed() {
			t.Fatalf("%.300q", text)
		}
	}
}
