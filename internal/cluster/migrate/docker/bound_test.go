// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"

	"weir/internal/cluster/migrate"
	"weir/internal/core/accept"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// TestDrawnContainers: 10,000 containers that come from another node with labels, names, paths
// and environment drawn at random, in descriptions of the size that a node reads at most. Judging
// one costs what one input may.
func TestDrawnContainers(t *testing.T) {
	r := rand.New(rand.NewPCG(44, 4))
	largest := 0
	for range 10000 {
		c := arriving(t, r)
		largest = max(largest, len(c.Config))
		o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachLayer, Container: c}
		boundtest.Hold(t, func() { examine(o, accept.Rules{}, target) })
		if t.Failed() {
			t.Fatalf("%.300q", c.Config)
		}
	}
	if largest < bound.Description/2 {
		t.Errorf("the largest description has %d bytes, want some near %d", largest, bound.Description)
	}
}

// arriving returns a container as another node may describe it, in at most bound.Description bytes.
func arriving(t *testing.T, r *rand.Rand) migrate.Container {
	t.Helper()
	for most := bound.Description >> (r.IntN(12) / 4); ; most /= 2 { // JSON writes a byte of control as six
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
		if len(text) <= bound.Description {
			c.Config = text
			return c
		}
	}
}

// TestOneTextRefusedOften: what is long and refused once for each of many parts is put together
// once.
func TestOneTextRefusedOften(t *testing.T) {
	const size = bound.Description / 3
	long := strings.Repeat("x", size)
	for name, set := range map[string]func(*container.InspectResponse){
		"options of a bind": func(r *container.InspectResponse) {
			r.HostConfig.Binds = []string{"/" + long + ":/data:" + strings.Repeat(",a", size/2)}
		},
		"options of a tmpfs": func(r *container.InspectResponse) {
			r.HostConfig.Tmpfs = map[string]string{"/" + long: strings.Repeat(",a", size/2)}
		},
		"ports of the host": func(r *container.InspectResponse) {
			r.HostConfig.PortBindings = nat.PortMap{nat.Port(long): slices.Repeat([]nat.PortBinding{{HostPort: "x"}}, size/32)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inspect, c := honest()
			set(&inspect)
			text, err := json.Marshal(config{Inspect: inspect})
			if err != nil || len(text) > bound.Description {
				t.Fatal(len(text), err)
			}
			c.Config = text
			o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: migrate.ApproachLayer, Container: c}
			boundtest.Hold(t, func() {
				if len(examine(o, accept.Rules{}, target)) == 0 {
					t.Error("accepted")
				}
			})
		})
	}
}

// TestManyAliases: a container that comes with thousands of names in a network costs its target
// what one input may, also where one that is there already has as many.
func TestManyAliases(t *testing.T) {
	named := func(letter string) map[string]*network.EndpointSettings {
		n := &network.EndpointSettings{}
		for i := range bound.Description / 9 {
			n.Aliases = append(n.Aliases, letter+strconv.FormatInt(int64(i), 36))
		}
		return map[string]*network.EndpointSettings{"lan": n}
	}
	inspect, _ := honest()
	inspect.NetworkSettings.Networks = named("a")
	other := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{Name: "/db"}, Config: &container.Config{Hostname: "a1"},
		NetworkSettings: &container.NetworkSettings{Networks: named("b")}}
	boundtest.Hold(t, func() {
		x := &migrate.Examination{}
		taken(claims(inspect), other, x)
		if list := x.Findings(); len(list) != 1 || !strings.Contains(list[0].Msg, "the name or address a1 already") {
			t.Errorf("%v", list)
		}
	})
}
