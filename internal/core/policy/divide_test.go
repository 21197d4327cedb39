// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const mbit = Rate(1e6)

// The divisions that the documentation and the qCon paper speak of.
func TestDivide(t *testing.T) {
	all := func(weight uint32, min, max Rate) Sharer {
		return Sharer{Weight: weight, Min: min, Max: max, Demand: Unlimited}
	}
	type want struct {
		mbit  float64
		binds Bind
	}
	for _, tt := range []struct {
		name     string
		capacity Rate
		sharers  []Sharer
		want     []want
		level    float64 // Mbit/s
	}{
		{
			"nobody", 100 * mbit, nil, nil, 0,
		}, {
			"weights 1, 2, 3", 100 * mbit,
			[]Sharer{all(1, 0, 0), all(2, 0, 0), all(3, 0, 0)},
			[]want{{100.0 / 6, BindShare}, {100.0 / 3, BindShare}, {50, BindShare}}, 100.0 / 6,
		}, {
			"a min above the share", 100 * mbit,
			[]Sharer{all(1, 30*mbit, 0), all(2, 0, 0), all(3, 0, 0)},
			[]want{{30, BindMin}, {28, BindShare}, {42, BindShare}}, 14,
		}, {
			"a min below the share changes nothing", 100 * mbit,
			[]Sharer{all(1, 10*mbit, 0), all(2, 0, 0), all(3, 0, 0)},
			[]want{{100.0 / 6, BindShare}, {100.0 / 3, BindShare}, {50, BindShare}}, 100.0 / 6,
		}, {
			"a max frees the rest", 100 * mbit,
			[]Sharer{all(1, 0, 0), all(2, 0, 0), all(3, 0, 10*mbit)},
			[]want{{30, BindShare}, {60, BindShare}, {10, BindMax}}, 30,
		}, {
			"min and max at once", 100 * mbit,
			[]Sharer{all(1, 40*mbit, 0), all(5, 0, 15*mbit), all(1, 0, 0), all(2, 0, 0)},
			[]want{{40, BindMin}, {15, BindMax}, {15, BindShare}, {30, BindShare}}, 15,
		}, {
			"mins 30, 20, 15, 15 of weights 1 to 5: the fifth has 20, which HTB does not give", 100 * mbit,
			[]Sharer{all(1, 30*mbit, 0), all(2, 20*mbit, 0), all(3, 15*mbit, 0), all(4, 15*mbit, 0), all(5, 0, 0)},
			[]want{{30, BindMin}, {20, BindMin}, {15, BindMin}, {15.5555555556, BindShare}, {19.4444444444, BindShare}}, 3.88888888889,
		}, {
			"one wants little", 100 * mbit,
			[]Sharer{{Weight: 1, Demand: 4 * mbit}, all(1, 0, 0), all(2, 0, 0)},
			[]want{{4, BindDemand}, {32, BindShare}, {64, BindShare}}, 32,
		}, {
			"a min that is not wanted is the others'", 100 * mbit,
			[]Sharer{{Weight: 1, Min: 80 * mbit, Demand: 10 * mbit}, {Weight: 1, Min: 20 * mbit, Demand: 0}, all(1, 0, 0)},
			[]want{{10, BindDemand}, {0, BindIdle}, {90, BindShare}}, 90,
		}, {
			"all at their caps: the rest of the link is unused", 100 * mbit,
			[]Sharer{all(1, 0, 20*mbit), {Weight: 2, Demand: 30 * mbit}, {Weight: 1, Max: 5 * mbit, Demand: 5 * mbit}},
			[]want{{20, BindMax}, {30, BindDemand}, {5, BindMax}}, 20,
		}, {
			"alone with min equal to max: the max holds it back", 100 * mbit,
			[]Sharer{all(1, 20*mbit, 20*mbit)},
			[]want{{20, BindMax}}, 20,
		}, {
			"contended with min equal to max: the min gives it", 100 * mbit,
			[]Sharer{all(1, 40*mbit, 40*mbit), all(4, 0, 0)},
			[]want{{40, BindMin}, {60, BindShare}}, 15,
		}, {
			"the mins fill the link", 100 * mbit,
			[]Sharer{all(1, 60*mbit, 0), all(1, 40*mbit, 0), all(1, 0, 0)},
			[]want{{60, BindMin}, {40, BindMin}, {0, BindShare}}, 0,
		}, {
			"the mins fill the link and nobody is without", 100 * mbit,
			[]Sharer{all(1, 60*mbit, 0), all(1, 40*mbit, 0)},
			[]want{{60, BindMin}, {40, BindMin}}, 0,
		}, {
			"the mins fill the link, one is not wanted whole", 100 * mbit,
			[]Sharer{{Weight: 1, Min: 80 * mbit, Demand: 60 * mbit}, all(1, 40*mbit, 0)},
			[]want{{60, BindDemand}, {40, BindMin}}, 0,
		}, {
			"alone with a max of the whole link", 100 * mbit,
			[]Sharer{all(2, 0, 100*mbit)},
			[]want{{100, BindMax}}, 50,
		}, {
			"the mins do not fit: all are cut alike", 100 * mbit,
			[]Sharer{all(1, 150*mbit, 0), all(1, 50*mbit, 0), all(7, 0, 0), {Weight: 1, Min: 50 * mbit}},
			[]want{{75, BindMin}, {25, BindMin}, {0, BindShare}, {0, BindIdle}}, 0,
		}, {
			"mins beyond 64 bits", 100 * mbit,
			[]Sharer{all(1, Unlimited, 0), all(1, Unlimited, 0)},
			[]want{{50, BindMin}, {50, BindMin}}, 0,
		}, {
			"weight 0 counts as 1", 100 * mbit,
			[]Sharer{all(0, 0, 0), all(3, 0, 0)},
			[]want{{25, BindShare}, {75, BindShare}}, 25,
		}, {
			"a min above the max: the max wins", 100 * mbit,
			[]Sharer{all(1, 30*mbit, 10*mbit), all(9, 0, 0)},
			[]want{{10, BindMax}, {90, BindShare}}, 10,
		}, {
			"a max above the link is none", 100 * mbit,
			[]Sharer{all(1, 0, 300*mbit)},
			[]want{{100, BindShare}}, 100,
		}, {
			"a link that carries nothing", 0,
			[]Sharer{all(1, 0, 0), {Weight: 1}},
			[]want{{0, BindShare}, {0, BindIdle}}, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Divide(tt.capacity, tt.sharers)
			if math.Abs(got.Level/1e6-tt.level) > 1e-9 {
				t.Errorf("level %v Mbit/s, want %v", got.Level/1e6, tt.level)
			}
			if len(got.Shares) != len(tt.want) {
				t.Fatalf("%d shares for %d sharers", len(got.Shares), len(tt.sharers))
			}
			for i, s := range got.Shares {
				if math.Abs(s.Bps/1e6-tt.want[i].mbit) > 1e-9 || s.Binds != tt.want[i].binds {
					t.Errorf("sharer %d gets %v Mbit/s (%s), want %v (%s)", i, s.Bps/1e6, s.Binds, tt.want[i].mbit, tt.want[i].binds)
				}
			}
		})
	}
}

// oracle solves the contract in exact fractions and by another way than Divide:
// it tries each level at which the formula bends, taking the formula as it is
// printed, and interpolates between the two around the capacity. The floors must
// fit. ok is false if nothing makes the shares add up to the capacity, as all
// are at their caps.
type oracle struct {
	capacity Rate
	sharers  []Sharer
}

func (o oracle) at(c Sharer, level *big.Rat) *big.Rat {
	whole := func(r Rate) *big.Rat { return new(big.Rat).SetInt(new(big.Int).SetUint64(uint64(r))) }
	x := new(big.Rat).Mul(level, big.NewRat(int64(c.Weight), 1))
	if m := whole(c.Min); x.Cmp(m) < 0 {
		x = m
	}
	if m := whole(c.Max); c.Max != 0 && x.Cmp(m) > 0 {
		x = m
	}
	if d := whole(c.Demand); x.Cmp(d) > 0 {
		x = d
	}
	return x
}

func (o oracle) sum(level *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, c := range o.sharers {
		sum.Add(sum, o.at(c, level))
	}
	return sum
}

func (o oracle) level() (level *big.Rat, ok bool) {
	levels := []*big.Rat{new(big.Rat)}
	for _, c := range o.sharers {
		for _, r := range []Rate{c.Min, c.Max, c.Demand} {
			levels = append(levels, new(big.Rat).SetFrac(new(big.Int).SetUint64(uint64(r)), big.NewInt(int64(c.Weight))))
		}
	}
	slices.SortFunc(levels, (*big.Rat).Cmp)
	capacity := new(big.Rat).SetInt(new(big.Int).SetUint64(uint64(o.capacity)))
	for i, high := range levels {
		sumHigh := o.sum(high)
		if sumHigh.Cmp(capacity) < 0 {
			continue
		}
		if i == 0 || sumHigh.Cmp(capacity) == 0 {
			return high, true
		}
		low := levels[i-1]
		sumLow := o.sum(low)
		// low + (high-low) * (capacity-sumLow)/(sumHigh-sumLow)
		part := new(big.Rat).Sub(capacity, sumLow)
		part.Quo(part, new(big.Rat).Sub(sumHigh, sumLow))
		part.Mul(part, new(big.Rat).Sub(high, low))
		return part.Add(part, low), true
	}
	return levels[len(levels)-1], false
}

// binds returns the reason for a sharer's rate, from the definition: the term of the
// formula that gives x.
func (o oracle) binds(c Sharer, level *big.Rat) Bind {
	x := o.at(c, level)
	is := func(r Rate) bool { return x.Cmp(new(big.Rat).SetInt(new(big.Int).SetUint64(uint64(r)))) == 0 }
	share := new(big.Rat).Mul(level, big.NewRat(int64(c.Weight), 1))
	switch atCap := share.Cmp(x) >= 0; {
	case c.Demand == 0:
		return BindIdle
	case atCap && c.Max != 0 && is(c.Max):
		return BindMax
	case atCap && is(c.Demand):
		return BindDemand
	case atCap:
		return BindShare
	case is(c.Min):
		return BindMin
	case c.Max != 0 && is(c.Max):
		return BindMax
	}
	return BindDemand
}

// anyLink draws a link and sharers on it whose floors fit, with many ties.
func anyLink(t *rapid.T) (Rate, []Sharer) {
	capacity := rapid.OneOf(
		rapid.SampledFrom([]Rate{MinRate, 100 * mbit, MaxRate}),
		rapid.Custom(anyRate),
	).Draw(t, "capacity")
	rate := func(top Rate) *rapid.Generator[Rate] {
		return rapid.OneOf(
			rapid.Just(Rate(0)),
			rapid.Map(rapid.IntRange(0, 10), func(tenths int) Rate { return top / 10 * Rate(tenths) }),
			rapid.Map(rapid.Uint64Range(0, uint64(top)), func(r uint64) Rate { return Rate(r) }),
		)
	}
	left := capacity
	sharers := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Sharer {
		c := Sharer{
			Weight: rapid.OneOf(rapid.Uint32Range(1, 4), rapid.Uint32Range(1, MaxWeight)).Draw(t, "weight"),
			Min:    rate(left).Draw(t, "min"),
			Max:    rate(2*capacity).Draw(t, "max"),
			Demand: rapid.OneOf(rapid.Just(Unlimited), rapid.Just(Unlimited), rate(2*capacity)).Draw(t, "demand"),
		}
		if c.Max != 0 {
			c.Min = min(c.Min, c.Max)
		}
		left -= c.Min
		return c
	}), 0, 12).Draw(t, "sharers")
	return capacity, sharers
}

func near(got, want float64) bool {
	return math.Abs(got-want) <= 1e-12*math.Max(math.Abs(want), 1)
}

func TestDivideAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, sharers := anyLink(t)
		got := Divide(capacity, sharers)
		o := oracle{capacity, sharers}
		level, reached := o.level()
		if exact, _ := level.Float64(); reached && got.Level > exact*(1+1e-12)+1e-12 && !o.allAtCap(level) {
			t.Errorf("level is %v, the lowest is %v", got.Level, exact)
		}
		for i, c := range sharers {
			want, _ := o.at(c, level).Float64()
			if s := got.Shares[i]; !near(s.Bps, want) || s.Binds != o.binds(c, level) && !o.allAtCap(level) {
				t.Errorf("sharer %d %+v gets %v (%s), want %v (%s)", i, c, s.Bps, s.Binds, want, o.binds(c, level))
			}
		}
	})
}

// allAtCap reports whether no sharer would get more at a higher level.
func (o oracle) allAtCap(level *big.Rat) bool {
	higher := new(big.Rat).Add(level, new(big.Rat).SetInt(new(big.Int).SetUint64(uint64(Unlimited))))
	return o.sum(level).Cmp(o.sum(higher)) == 0
}

// The contract's promises, each for itself.
func TestDivideHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, sharers := anyLink(t)
		d := Divide(capacity, sharers)
		var sum, wanted float64
		for i, c := range sharers {
			x, limit := d.Shares[i].Bps, float64(c.Demand)
			if c.Max != 0 {
				limit = min(limit, float64(c.Max))
			}
			sum, wanted = sum+x, wanted+limit
			if x < 0 || x > limit {
				t.Errorf("sharer %d %+v gets %v, above its max or demand", i, c, x)
			}
			if x < min(float64(c.Min), limit) {
				t.Errorf("sharer %d %+v gets %v, below its min", i, c, x)
			}
			if fair := d.Level * float64(c.Weight); d.Shares[i].Binds == BindShare && !near(x, fair) {
				t.Errorf("sharer %d %+v gets %v, its share is %v", i, c, x, fair)
			}
		}
		if want := min(wanted, float64(capacity)); math.Abs(sum-want) > 1e-12*want+1e-6 {
			t.Errorf("%v of %v is used, %v is wanted", sum, capacity, wanted)
		}
		if math.IsInf(d.Level, 0) || math.IsNaN(d.Level) || d.Level < 0 {
			t.Errorf("level is %v", d.Level)
		}
	})
}

func TestDivideDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, sharers := anyLink(t)
		order := rapid.Permutation(indexes(len(sharers))).Draw(t, "order")
		shuffled := make([]Sharer, len(sharers))
		for to, from := range order {
			shuffled[to] = sharers[from]
		}
		a, b := Divide(capacity, sharers), Divide(capacity, shuffled)
		if a.Level != b.Level {
			t.Errorf("level %v, in another order %v", a.Level, b.Level)
		}
		for to, from := range order {
			if a.Shares[from] != b.Shares[to] {
				t.Errorf("sharer %d gets %v, in another order %v", from, a.Shares[from], b.Shares[to])
			}
		}
	})
}

func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func TestDivideScales(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity, sharers := anyLink(t)
		factor := rapid.Uint64Range(2, 1000).Draw(t, "factor")
		times := func(r Rate) Rate {
			if r == Unlimited {
				return r
			}
			return r * Rate(factor)
		}
		scaled := slices.Clone(sharers)
		for i, c := range scaled {
			scaled[i] = Sharer{c.Weight, times(c.Min), times(c.Max), times(c.Demand)}
		}
		a, b := Divide(capacity, sharers), Divide(times(capacity), scaled)
		for i := range sharers {
			if !near(b.Shares[i].Bps, a.Shares[i].Bps*float64(factor)) || a.Shares[i].Binds != b.Shares[i].Binds {
				t.Errorf("sharer %d gets %v, of %d times as much %v", i, a.Shares[i], factor, b.Shares[i])
			}
		}
	})
}

// More capacity, weight or demand never gives a sharer less; more of a rival's weight
// or demand never gives it more.
func TestDivideIsMonotone(t *testing.T) {
	const slack = 1e-12
	rapid.Check(t, func(t *rapid.T) {
		capacity, sharers := anyLink(t)
		if len(sharers) == 0 {
			return
		}
		before := Divide(capacity, sharers)
		more := capacity + rapid.Map(rapid.Uint64Range(0, uint64(capacity)), func(r uint64) Rate { return Rate(r) }).Draw(t, "more")
		for i, s := range Divide(more, sharers).Shares {
			if s.Bps < before.Shares[i].Bps*(1-slack) {
				t.Errorf("sharer %d gets %v of a larger link, %v before", i, s.Bps, before.Shares[i].Bps)
			}
		}
		who := rapid.IntRange(0, len(sharers)-1).Draw(t, "who")
		changed := slices.Clone(sharers)
		changed[who].Weight = min(MaxWeight, changed[who].Weight*2)
		changed[who].Max = 0
		after := Divide(capacity, changed)
		for i, s := range after.Shares {
			old := before.Shares[i].Bps
			if i == who && s.Bps < old*(1-slack) || i != who && s.Bps > old*(1+slack) {
				t.Errorf("sharer %d gets %v after sharer %d asked for more, %v before", i, s.Bps, who, old)
			}
		}
	})
}

func BenchmarkDivide(b *testing.B) {
	for _, n := range []int{8, 128, 4096} {
		sharers := make([]Sharer, n)
		for i := range sharers {
			sharers[i] = Sharer{Weight: uint32(i%100 + 1), Min: Rate(i % 7 * 1000), Max: Rate(i%5) * mbit, Demand: Unlimited}
		}
		b.Run(fmt.Sprintf("%d sharers", n), func(b *testing.B) {
			for b.Loop() {
				Divide(1000*mbit, sharers)
			}
		})
	}
}
