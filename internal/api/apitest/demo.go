// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"weir/internal/api"
	"weir/internal/core/delay"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
)

// Workload makes an active workload on eth0 that sends rate Mbit/s; mins and
// maxes are in Mbit/s too, 0 = none.
func Workload(name string, weight uint32, min, max, rate uint64) api.Workload {
	w := api.Workload{
		Name: name, Key: workload.Key(workload.KindDocker, name), Kind: workload.KindDocker, State: workload.StateActive,
		Policy:  api.PolicyOf(policy.Policy{Weight: weight, Min: mbit(min), Max: mbit(max)}),
		Origin:  map[string]string{"weight": "label", "min": "default", "max": "default"},
		Devices: []string{"veth-" + name},
	}
	w.Links = []api.WorkloadLink{{
		Device: "eth0", Direction: "egress", MinBps: min * 1e6, MaxBps: max * 1e6,
		RateBps: float64(rate) * 1e6, Share: float64(rate) * 1e6 / Capacity,
		IdealBps: float64(rate) * 1e6, OfferedBps: float64(rate) * 1e6,
		SentPackets: rate * 100, SentBytes: rate * 125_000,
	}}
	return w
}

func mbit(n uint64) policy.Amount { return policy.Amount{Rate: policy.Rate(n) * 1e6} }

// Demo returns a host with three containers that send, one that waits for its network,
// one that cannot be steered, and the host itself.
func Demo() []api.Workload {
	host := Workload("host", 1, 0, 0, 0)
	host.Kind, host.Key, host.Devices = workload.KindHost, "host", nil
	host.Links[0].IdealBps = 0

	web := Workload("web", 3, 20, 0, 50)
	web.ID = "4f5e6d7c8b9a"
	web.Origin["min"] = "set"
	web.Links[0].BacklogPackets, web.Links[0].BacklogBytes = 12, 18168
	web.Links[0].Delay = &api.Delay{P50Ms: 0.84, P99Ms: 5.112, MostMs: 12.3, Packets: 41200, Total: &delay.Histogram{115: 20600, 198: 20600}}
	web.Links[0].Score = &api.Score{WantedSeconds: 60, Kept: 0.95, WorstMinute: 55. / 58, WantedSecondsTotal: 60, KeptSecondsTotal: 57,
		Text: "95.0 % of the 60 s in which it wanted its min, worst minute 94.8 %"}

	batch := Workload("batch", 2, 0, 0, 33)
	batch.ID = "90ab12cd34ef"
	batch.Links[0].Drops = map[string]uint64{"class_packets": 42, "link_bytes": 3}
	batch.Links[0].DropsPerSecond = 4.5
	batch.Links[0].BacklogPackets, batch.Links[0].BacklogBytes = 1000, 1514000

	cam := Workload("cam", 1, 0, 10, 10)
	cam.Kind, cam.Key = workload.KindNetns, workload.Key(workload.KindNetns, "cam")
	cam.Origin["max"] = "config"

	waiting := Workload("late", 1, 0, 0, 0)
	waiting.State, waiting.Note, waiting.Links, waiting.Devices = workload.StateWaiting, "its network is not up", nil, nil

	hostnet := Workload("agentd", 1, 0, 0, 0)
	hostnet.State, hostnet.Note, hostnet.Links, hostnet.Devices = workload.StateUnsteered, "uses the host's network", nil, nil

	all := []api.Workload{host, web, batch, cam, waiting, hostnet}
	for i := range all {
		all[i].Class = uint16(i)
	}
	return all
}
