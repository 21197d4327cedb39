// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"cmp"

	"weir/internal/api"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// Traffic returns what a class did on a link over the last second, as the API shows it. class
// is the class as it is wanted, the zero value if the link has none of that number.
func (d Division) Traffic(link plan.Link, id plan.ClassID, class plan.Class) api.WorkloadLink {
	used := d.Used[id]
	view := api.WorkloadLink{
		Device:         link.Place(),
		Direction:      string(cmp.Or(link.Direction, policy.Egress)),
		MinBps:         uint64(class.Min),
		MaxBps:         uint64(class.Max),
		RateBps:        used.Rate,
		Share:          used.Rate / float64(link.Capacity),
		IdealBps:       d.Shares[id].Bps,
		OfferedBps:     used.Offered,
		BacklogPackets: used.BacklogPackets,
		BacklogBytes:   used.BacklogBytes,
		SentPackets:    used.SentPackets,
		SentBytes:      used.SentBytes,
		Drops:          used.Drops,
		DropsPerSecond: used.DropsPerSecond,
		MarkedPackets:  used.Marked,
		ThinnedPackets: used.Thinned,
	}
	if view.Drops == nil {
		view.Drops = map[string]uint64{}
	}
	for i, q := range used.Inside[:min(len(used.Inside), len(class.Queues))] {
		view.Queues = append(view.Queues, q.view(class.Queues[i].Name))
	}
	return view
}

// view returns the queue as the API shows it.
func (u Queue) view(name string) api.QueueTraffic {
	q := api.QueueTraffic{
		Name: name, RateBps: u.Rate, OfferedBps: u.Offered,
		BacklogPackets: u.BacklogPackets, BacklogBytes: u.BacklogBytes,
		SentPackets: u.SentPackets, SentBytes: u.SentBytes,
		Drops: u.Drops, DropsPerSecond: u.DropsPerSecond,
	}
	if q.Drops == nil {
		q.Drops = map[string]uint64{}
	}
	return q
}
