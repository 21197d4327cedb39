// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/twolevel"
)

// member is one of a drawn tree's classes and what it sends.
type member struct {
	class   plan.Class
	sources []traffic
}

// bulk sends all it can, with `window` packets of `length` bytes on their way; sparse are flows
// beside it that begin anew after some packets.
func bulk(c plan.Class, length, window int, delay time.Duration, sparse ...traffic) member {
	sources := []traffic{{length: length, window: window, delay: delay}}
	for i, s := range sparse {
		s.flow = sparseFlow + i
		sources = append(sources, s)
	}
	return member{c, sources}
}

func steady(c plan.Class, length int, interval time.Duration) member {
	return member{c, []traffic{{length: length, interval: interval}}}
}

func client(length int, delay time.Duration, packets int) traffic {
	return traffic{length: length, delay: delay, packets: packets}
}

// TestDrawnOnce has policies and traffic that were drawn by TestFairHoldsTheContract and
// TestGroupsHoldTheContract, and that the schedule did not keep then.
func TestDrawnOnce(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	group := func(id plan.ClassID, weight uint32, least, most policy.Rate) plan.Class {
		return plan.Class{ID: id, Weight: weight, Min: least, Max: most, Group: true}
	}
	in := func(parent plan.ClassID, weight uint32, least, most policy.Rate) plan.Class {
		return plan.Class{Weight: weight, Min: least, Max: most, Parent: parent, Discipline: discipline.SFQ}
	}
	for _, test := range []struct {
		name     string
		capacity policy.Rate
		groups   []plan.Class
		members  []member
	}{
		{"a min a little above its share beside frames as long as 8 of its packets", 5 * mbit, nil, []member{
			bulk(in(0, 5, 0, 0), frames, 2, 10*us),
			bulk(in(0, 1, 0, 109570), 1000, 2, 10*us),
			bulk(in(0, 1, 879536, 879536), frames, 2, 242*us),
			steady(in(0, 9, 0, 135760), frames, 2287244),
			bulk(in(0, 7, 1452283, 0), 200, 5, 10*us),
			bulk(in(0, 1, 1424478, 0), 200, 5, 19*us),
		}},
		{"a class that always is boosted where mins leave a twentieth of the link", 20 * mbit,
			[]plan.Class{group(1, 4, 0, 0), group(2, 10, 0, 20*mbit)}, []member{
				bulk(in(0, 5, 1369068, 1369094), 200, 14, 212*us),
				bulk(in(0, 3, 9661193, 0), 1000, 4, 32*us),
				steady(in(2, 8, 0, 0), 200, 160*us),
				bulk(in(1, 1, 0, 0), 200, 14, 10*us),
				steady(in(1, 5, 0, 0), 1000, 28032753),
				bulk(in(0, 2, 0, 0), frames, 3, 12*us, client(972, us, 1), client(61, 4*us, 1)),
				bulk(in(1, 1, 0, 0), frames, 3, 162*us, client(1047, 3*ms, 2), client(114, 8*us, 5)),
				bulk(in(0, 8, 6278817, 0), 200, 14, 11*us),
			}},
		{"a max in a group whose frames take 9 ms", 20 * mbit, []plan.Class{group(2, 1, 0, 1296875)}, []member{
			bulk(in(2, 1, 0, 0), frames, 3, 10*us),
			bulk(in(2, 1, 0, 0), frames, 3, 10*us),
			bulk(in(2, 2, 0, 553125), 200, 14, 10*us),
		}},
		{"maxes in a group whose turn comes once in 18 ms", 1000 * mbit, []plan.Class{group(1, 1, 0, 1000*mbit)}, []member{
			bulk(in(1, 8, 0, 20*mbit), frames, 84, 181*us, client(62, 717*us, 5), client(409, us, 2), client(67, 3*ms, 4), client(64, 157*us, 3)),
			bulk(in(1, 4, 0, 921560219), 200, 627, 14*us),
			bulk(in(1, 1, 0, 1000*mbit), 1000, 127, 11*us),
			bulk(in(1, 1, 0, 1000*mbit), 1000, 127, 10*us),
			steady(in(0, 1, 700*mbit, 0), 1000, 10777),
			steady(in(0, 4, 0, 0), frames, 8074),
			bulk(in(0, 2, 21093750, 0), 1000, 127, 10*us),
			bulk(in(1, 1, 0, 0), 1000, 127, 13*us),
		}},
		{"mins and weights in a group of 1 Mbit/s", 20 * mbit, []plan.Class{group(1, 1, mbit, 1074218)}, []member{
			bulk(in(1, 1, 700000, 0), 200, 14, 10*us, client(60, us, 1), client(60, us, 1)),
			steady(in(1, 1, 75000, 0), 200, 53333),
			bulk(in(1, 4, 0, 0), 200, 14, 10*us),
			bulk(in(1, 4, 0, 400146), frames, 3, 229*us),
			bulk(in(1, 5, 0, 0), frames, 3, 17*us, client(63, 32*us, 4), client(896, 37*us, 3), client(340, 3*ms, 4), client(61, 863*us, 2)),
		}},
		{"maxes beside a member that always is boosted", 1000 * mbit, []plan.Class{group(1, 1, 0, 0)}, []member{
			bulk(in(1, 5, 0, 20*mbit), 1000, 127, 43*us),
			bulk(in(1, 2, 0, 0), frames, 84, 10*us, client(60, 8*us, 2)),
			bulk(in(1, 9, 0, 20*mbit), 1000, 127, 23*us),
			bulk(in(0, 7, 24139404, 0), 200, 627, 142*us, client(416, 7*us, 4), client(884, 2*us, 1)),
			bulk(in(0, 9, 86490351, 0), frames, 84, 15*us),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := tree{groups: test.groups}
			for _, g := range test.groups {
				tr.branches = append(tr.branches, twolevel.Branch{Sharer: policy.Sharer{Weight: g.Weight, Min: g.Min, Max: g.Max, Demand: policy.Unlimited}})
				tr.places = append(tr.places, nil)
			}
			for i, m := range test.members {
				m.class.ID = plan.ClassID(firstMember + i)
				sharer := policy.Sharer{Weight: m.class.Weight, Min: m.class.Min, Max: m.class.Max, Demand: policy.Unlimited}
				if every := m.sources[0].interval; every > 0 {
					sharer.Demand = policy.Rate(float64(m.sources[0].length*8) / every.Seconds())
				}
				tr.join(m.class, sharer, m.sources)
			}
			tr.holds(t, test.capacity, 10*time.Second)
		})
	}
}
