// SPDX-License-Identifier: Apache-2.0

package optimize

import (
	"reflect"
	"testing"

	"weir/internal/core/wire"
)

func TestFromProfiles(t *testing.T) {
	profile := func(seconds, cpu, transmit float64, memory uint64, more ...wire.ContainerProfile) wire.Profile {
		return wire.Profile{Node: "n", IntervalSeconds: seconds,
			Capacity: wire.Capacity{CPUCores: 4, MemoryBytes: 8e9, GuaranteedBps: 100e6, GuaranteedElsewhereBps: 30e6},
			Containers: append([]wire.ContainerProfile{{ID: "1", Name: "web", ChangedBytes: 5e6,
				Labels: map[string]string{wire.PinnedLabel: "true", wire.ApartLabel: "web"}, Policy: wire.Policy{MinBps: 20e6},
				Usage: wire.Usage{CPUCores: cpu, NetworkTransmitBps: transmit, MemoryBytes: memory, MemoryAnonymousBytes: memory / 2}}}, more...)}
	}
	gone := wire.ContainerProfile{ID: "2", Name: "gone", Usage: wire.Usage{CPUCores: 3}}
	p, list := FromProfiles([][]wire.Profile{
		{profile(0, 0, 0, 1e6), profile(5, 1, 10e6, 2e6, gone), profile(15, 3, 30e6, 4e6)},
		{}, // nothing heard of this one
	})
	if len(p.Nodes) != 1 || len(p.Containers) != 1 || list[0].ID != "1" {
		t.Fatalf("%+v", p)
	}
	n, c := p.Nodes[0], p.Containers[0]
	if n.Name != "n" || n.Capacity[CPU] != 4 || n.Capacity[Memory] != 8e9 || n.Guaranteed != 70e6 {
		t.Errorf("%+v", n)
	}
	// 5 s of 1 CPU and 15 s of 3.
	want := Container{Name: "web", Min: 20e6, Pinned: true, Group: "web", Bytes: 7e6,
		Demand: Vector{CPU: 2.5, Memory: 4e6, Transmit: 25e6}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("%+v\nwant %+v", c, want)
	}
}
