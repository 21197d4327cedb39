// SPDX-License-Identifier: Apache-2.0

package twolevel

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/policy"
)

const mbit = policy.Rate(1e6)

// The trees that the documentation speaks of.
func TestDivide(t *testing.T) {
	all := func(weight uint32, min, max policy.Rate) policy.Sharer {
		return policy.Sharer{Weight: weight, Min: min, Max: max, Demand: policy.Unlimited}
	}
	type want struct {
		mbit    float64
		binds   policy.Bind
		members []policy.Share // in Mbit/s
	}
	for _, tt := range []struct {
		name     string
		branches []Branch
		want     []want
	}{
		{
			"the example of Divide",
			[]Branch{{policy.Sharer{Weight: 1}, []policy.Sharer{all(1, 0, 0), all(3, 0, 0)}}, {all(1, 0, 0), nil}},
			[]want{{50, policy.BindShare, []policy.Share{{Bps: 12.5, Binds: policy.BindShare}, {Bps: 37.5, Binds: policy.BindShare}}}, {50, policy.BindShare, nil}},
		}, {
			"a group's max frees the rest, whatever its members could have",
			[]Branch{{policy.Sharer{Weight: 9, Max: 40 * mbit}, []policy.Sharer{all(1, 0, 0), all(1, 0, 0)}}, {all(1, 0, 0), nil}},
			[]want{{40, policy.BindMax, []policy.Share{{Bps: 20, Binds: policy.BindShare}, {Bps: 20, Binds: policy.BindShare}}}, {60, policy.BindShare, nil}},
		}, {
			"a group's min is its members' together, also if only one of them sends",
			[]Branch{{policy.Sharer{Weight: 1, Min: 60 * mbit}, []policy.Sharer{{Weight: 1}, all(1, 0, 0)}}, {all(9, 0, 0), nil}},
			[]want{{60, policy.BindMin, []policy.Share{{Bps: 0, Binds: policy.BindIdle}, {Bps: 60, Binds: policy.BindShare}}}, {40, policy.BindShare, nil}},
		}, {
			"members held down by their maxes leave the rest to others",
			[]Branch{{policy.Sharer{Weight: 9}, []policy.Sharer{all(1, 0, 10*mbit), all(1, 0, 5*mbit)}}, {all(1, 0, 0), nil}},
			[]want{{15, policy.BindDemand, []policy.Share{{Bps: 10, Binds: policy.BindMax}, {Bps: 5, Binds: policy.BindMax}}}, {85, policy.BindShare, nil}},
		}, {
			"a member's min within its group",
			[]Branch{{policy.Sharer{Weight: 1, Min: 30 * mbit}, []policy.Sharer{all(1, 30*mbit, 0), all(1, 0, 0)}}, {all(1, 0, 0), nil}},
			[]want{{50, policy.BindShare, []policy.Share{{Bps: 30, Binds: policy.BindMin}, {Bps: 20, Binds: policy.BindShare}}}, {50, policy.BindShare, nil}},
		}, {
			"a group nobody is in",
			[]Branch{{policy.Sharer{Weight: 5, Min: 50 * mbit, Demand: policy.Unlimited}, []policy.Sharer{}}, {all(1, 0, 0), nil}},
			[]want{{0, policy.BindIdle, nil}, {100, policy.BindShare, nil}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Divide(100*mbit, tt.branches)
			for i, w := range tt.want {
				if math.Abs(got.Shares[i].Bps-w.mbit*1e6) > 1 || got.Shares[i].Binds != w.binds {
					t.Errorf("branch %d has %v, want %v Mbit/s by %s", i, got.Shares[i], w.mbit, w.binds)
				}
				if len(got.Groups[i].Shares) != len(w.members) {
					t.Fatalf("branch %d has %d members' shares, want %d", i, len(got.Groups[i].Shares), len(w.members))
				}
				for j, m := range w.members {
					if s := got.Groups[i].Shares[j]; math.Abs(s.Bps-m.Bps*1e6) > 1 || s.Binds != m.Binds {
						t.Errorf("member %d of branch %d has %v, want %v Mbit/s by %s", j, i, s, m.Bps, m.Binds)
					}
				}
			}
		})
	}
}

// bruteDivide finds the level by halving, without policy.Divide's bends: the lowest at
// which the link is full, in float64.
func bruteDivide(capacity float64, sharers []bruteSharer) []float64 {
	at := func(level float64) (sum float64, shares []float64) {
		for _, c := range sharers {
			x := math.Min(c.ceil, math.Max(math.Min(c.floor, c.ceil), level*c.weight))
			shares = append(shares, x)
			sum += x
		}
		return sum, shares
	}
	low, high := 0.0, capacity
	for range 200 {
		mid := (low + high) / 2
		if sum, _ := at(mid); sum > capacity {
			high = mid
		} else {
			low = mid
		}
	}
	_, shares := at(low)
	return shares
}

type bruteSharer struct{ weight, floor, ceil float64 }

func brute(c policy.Sharer, demand float64) bruteSharer {
	ceil := demand
	if c.Max != 0 {
		ceil = math.Min(ceil, float64(c.Max))
	}
	return bruteSharer{float64(c.Weight), float64(c.Min), ceil}
}

// Random trees of up to 4 groups and 8 workloads against the brute force.
func TestDivideAgainstBruteForce(t *testing.T) {
	const capacity = 100 * mbit
	demand := rapid.OneOf(rapid.Just(policy.Unlimited), rapid.Just(policy.Rate(0)), rapid.Map(rapid.Uint64Range(1, 150e6), func(n uint64) policy.Rate { return policy.Rate(n) }))
	draw := func(t *rapid.T, room *policy.Rate) policy.Sharer {
		c := policy.Sharer{Weight: rapid.Uint32Range(1, 20).Draw(t, "weight"), Demand: demand.Draw(t, "demand")}
		c.Min = policy.Rate(rapid.Uint64Range(0, uint64(*room)).Draw(t, "min"))
		*room -= c.Min
		if rapid.Bool().Draw(t, "has max") {
			c.Max = max(c.Min, policy.Rate(rapid.Uint64Range(1, 120e6).Draw(t, "max")))
		}
		return c
	}
	rapid.Check(t, func(t *rapid.T) {
		room := capacity
		var branches []Branch
		for range rapid.IntRange(1, 5).Draw(t, "branches") {
			b := Branch{Sharer: draw(t, &room)}
			if rapid.Bool().Draw(t, "is a group") {
				b.Members = []policy.Sharer{}
				inner := b.Min
				for range rapid.IntRange(0, 4).Draw(t, "members") {
					b.Members = append(b.Members, draw(t, &inner))
				}
			}
			branches = append(branches, b)
		}
		got := Divide(capacity, branches)
		var sharers []bruteSharer
		for _, b := range branches {
			wanted := float64(b.Demand)
			if b.Members != nil {
				wanted = 0
				for _, m := range b.Members {
					wanted += brute(m, float64(m.Demand)).ceil
				}
			}
			sharers = append(sharers, brute(b.Sharer, wanted))
		}
		const close = 2 // bit/s; the brute force has float64's error
		for i, want := range bruteDivide(float64(capacity), sharers) {
			if math.Abs(got.Shares[i].Bps-want) > close {
				t.Fatalf("branch %d of %+v has %v, want %v", i, branches, got.Shares[i], want)
			}
			var members []bruteSharer
			for _, m := range branches[i].Members {
				members = append(members, brute(m, float64(m.Demand)))
			}
			sum := 0.0
			for j, inner := range bruteDivide(want, members) {
				share := got.Groups[i].Shares[j]
				sum += share.Bps
				if math.Abs(share.Bps-inner) > close {
					t.Fatalf("member %d of branch %d of %+v has %v, want %v", j, i, branches, share, inner)
				}
				if m := branches[i].Members[j]; share.Bps < float64(min(m.Min, m.Demand))-close {
					t.Fatalf("member %d of branch %d of %+v has %v, below its min", j, i, branches, share)
				}
			}
			if branches[i].Members != nil && math.Abs(sum-got.Shares[i].Bps) > 1 {
				t.Fatalf("group %d has %v, its members %v together", i, got.Shares[i], sum)
			}
		}
	})
}
