// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/warrant"
	"weir/internal/core/bound"
	"weir/internal/core/policy"
	"weir/internal/core/wire"
	"weir/internal/test/boundtest"
)

// TestHostileMoves: node a, a genuine member with genuine grants, describes containers to node b
// whose names, configurations, labels and policies are drawn at random: 10,000 with -long, 500
// without. All are examined, and 16 of those that b accepts let in. The agent of b goes on under
// its unit's MemoryMax, none costs it more than 100 ms of CPU time, and the workload beside keeps
// its class.
func TestHostileMoves(t *testing.T) {
	moves := drawn(10_000, 500)
	m := newClusterNode(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 44))
	answers := map[int]int{} // 0: refused, and the connection closed, before the body was sent
	var costs []time.Duration
	for n := range moves {
		text, grant := hostileMove(r, n)
		sealed, cost := m.seal(grant), time.Hour
		for try := 0; try < 3 && cost > slower()*bound.CPU; try++ { // the least counts
			before := cpuOf(t, m.agent.Process.Pid)
			status, answer, err := m.call("begin", sealed, text)
			if err == nil && status != http.StatusOK && status != http.StatusConflict && status != http.StatusTooManyRequests {
				t.Fatalf("%d: %.300s", status, answer)
			}
			answers[status]++
			cost = min(cost, cpuOf(t, m.agent.Process.Pid)-before)
		}
		if costs = append(costs, cost); cost > slower()*bound.CPU {
			t.Fatalf("seed %d: a move takes %v of CPU time, %v are the most: %.600q", seed, cost, slower()*bound.CPU, text)
		}
	}
	if answers[http.StatusOK] == 0 {
		t.Error("no move is let in")
	}
	slices.Sort(costs)
	t.Logf("seed %d: %d moves; one takes %v of CPU time in the middle and %v at most; answers %v", seed, moves, costs[len(costs)/2], costs[len(costs)-1], answers)
	m.unharmed()
}

// hostileMove draws the description of a container that is to come, with its grant.
func hostileMove(r *rand.Rand, n int) (text string, grant wire.Grant) {
	labels := map[string]string{}
	settings := map[string]any{}
	for name, value := range boundtest.Named(r, policy.AllNames(), bound.Label+64) {
		labels["weir."+name], settings[name] = value, value
	}
	labels[boundtest.Draw(r, 1000)] = boundtest.Draw(r, 100_000)
	o := migrate.MoveSpec{Move: fmt.Sprintf("m-%d", n), From: "a", To: "b", Approach: migrate.ApproachLayer, Lease: time.Minute,
		Container: migrate.Container{ID: fmt.Sprintf("%064x", n), Name: fmt.Sprintf("c%d", n), Engine: "docker", Running: true, Image: "img", ImageID: "sha256:1", Networks: []migrate.Network{{Name: "bridge", Driver: "bridge"}}}}
	inspect := map[string]any{"Id": o.Container.ID, "Name": "/" + o.Container.Name, "Image": o.Container.ImageID, "State": map[string]any{"Running": true},
		"Config":          map[string]any{"Image": "img", "Labels": labels, "Env": []string{boundtest.Draw(r, 10_000)}},
		"NetworkSettings": oneNetwork, "HostConfig": map[string]any{"Binds": hostileBinds(r), "NetworkMode": "bridge"}}
	if r.IntN(5) == 0 {
		o.Container.Name = boundtest.Draw(r, 500)
	}
	if r.IntN(5) == 0 {
		inspect["Name"] = boundtest.Draw(r, 1000)
	}
	o.Container.Config, _ = json.Marshal(map[string]any{"Inspect": inspect})
	whole, _ := json.Marshal(map[string]any{"order": o, "settings": settings})
	text = string(whole)
	switch r.IntN(10) {
	case 0:
		text = boundtest.Draw(r, bound.Description+1000)
	case 1:
		text = `{"order":{"container":{"config":` + boundtest.Draw(r, bound.Description)
	case 2:
		text = text[:r.IntN(len(text))]
	case 3:
		changes := boundtest.Changes(bound.Body)
		text = text[:len(text)-1] + `,"settings":` + changes[r.IntN(len(changes))] + "}"
	}
	return text, wire.Grant{Manifest: warrant.ManifestOf(o, []byte(text)), From: "a", To: "b", Deadline: time.Now().Add(time.Hour)}
}

// hostileBinds draws folders of the host for some of the containers.
func hostileBinds(r *rand.Rand) []string {
	if r.IntN(4) > 0 {
		return nil
	}
	return slices.Repeat([]string{boundtest.Draw(r, 1000) + ":/x"}, 1+r.IntN(100))
}
