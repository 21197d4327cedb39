// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/twolevel"
)

// A link of several shards is held against the same oracle: policy.Divide of the sum of what waits.

// shardSimulator makes the program that runs several shards (bpf/sim/shards.c) and the library of
// which it loads a copy for each.
var shardSimulator = sync.OnceValues(func() ([]string, error) {
	program, library := filepath.Join(exeDir, "weir-shards"), filepath.Join(exeDir, "weir-shard.so")
	for _, args := range [][]string{
		{"-D_GNU_SOURCE", "-o", program, filepath.Join(*sources, "sim/shards.c")},
		{"-DWEIR_SMALL", "-DWEIR_SHARDS", "-fPIC", "-shared", "-o", library, filepath.Join(*sources, "sim/shard.c")},
	} {
		args = append([]string{"-O2", "-g", "-Wall", "-Wno-unused-function"}, args...)
		if text, err := exec.Command("clang-19", args...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("compile the simulator: %w\n%s", err, text)
		}
	}
	return []string{program, library}, nil
})

// simulateShards is simulate for a link that n shards divide. Their timers fire up to 50 us late.
func simulateShards(n int, link plan.Link, classes ...plan.Class) *simulation {
	s := &simulation{link: link, classes: classes, shards: n}
	fmt.Fprintln(s, "shards", n)
	fmt.Fprintln(s, "tardy", (50 * time.Microsecond).Nanoseconds())
	s.setLink()
	for _, c := range classes {
		s.setClass(c)
	}
	return s
}

// sendTo has traffic come to this shard.
func (s *simulation) sendTo(shard int, t traffic) {
	fmt.Fprintln(s, "queue", int(t.id)+t.flow*plan.MaxClasses, shard)
	s.send(t)
}

// windows runs n times a tenth of a second.
func (s *simulation) windows(n int) {
	for range n {
		s.run(time.Second / 10)
	}
}

// spreading says to which of n shards the flows of class number i of 64 are sent.
type spreading struct {
	name  string
	flows int
	to    func(draw *rand.Rand, n, i int) int
}

var spreadings = []spreading{
	{"skewed", 4, func(draw *rand.Rand, n, i int) int { return int(float64(n) * math.Pow(draw.Float64(), 3)) }},
	{"an elephant in each", 1, func(draw *rand.Rand, n, i int) int { return i % n }},
	{"all flows of a class in one", 4, func(draw *rand.Rand, n, i int) int { return int(float64(n) * math.Pow(float64(i)/64, 2)) }},
}

// drawShardClasses draws 64 classes: a quarter has a min, others have a max.
func drawShardClasses(draw *rand.Rand, capacity policy.Rate) (classes []plan.Class, sharers []policy.Sharer) {
	room := float64(capacity)
	for i := range 64 {
		c := plan.Class{ID: plan.ClassID(i + 1), Name: fmt.Sprint("c", i), Weight: uint32(1 + draw.IntN(10)), Discipline: discipline.FIFO}
		if i%4 == 0 {
			c.Min = policy.Rate(room * draw.Float64() * 0.1)
			room -= float64(c.Min)
		} else if i%6 == 1 {
			c.Max = policy.Rate(float64(capacity) / 64 * (0.3 + draw.Float64()))
		}
		classes = append(classes, c)
		sharers = append(sharers, policy.Sharer{Weight: c.Weight, Min: c.Min, Max: c.Max, Demand: policy.Unlimited})
	}
	return classes, sharers
}

// TestShardsHoldTheContract: 64 classes, whose flows are hashed to shards in bad ways.
func TestShardsHoldTheContract(t *testing.T) {
	for _, n := range []int{2, 8, 64} {
		for _, capacity := range []policy.Rate{1e9, 10e9, 25e9} {
			for _, how := range spreadings {
				if !*long && n != 8 && (capacity != 10e9 || how.flows == 1) {
					continue
				}
				t.Run(fmt.Sprintf("%d shards, %v, %s", n, capacity, how.name), func(t *testing.T) {
					holdShards(t, n, capacity, how)
				})
			}
		}
	}
}

// lengthAt returns the length of a link's packets. A simulated CPU does some 5 million things a
// second.
func lengthAt(capacity policy.Rate) int {
	if capacity > 10e9 {
		return 9014
	}
	return frames
}

func holdShards(t *testing.T, n int, capacity policy.Rate, how spreading) {
	length := lengthAt(capacity)
	draw := rand.New(rand.NewPCG(1, uint64(n)))
	classes, sharers := drawShardClasses(draw, capacity)
	want := policy.Divide(capacity, sharers)
	s := simulateShards(n, fairLink(capacity), classes...)
	for i, c := range classes {
		for flow := range how.flows {
			// TCP keeps 1 to 2 ms of its rate in the queue, two packets at least.
			window := 2 + int(want.Shares[i].Bps/8*1.5e-3/float64(length*how.flows))
			s.sendTo(how.to(draw, n, i), traffic{id: c.ID, flow: flow, length: length, window: window, delay: 50 * time.Microsecond})
		}
	}
	s.windows(25)
	phases := s.result(t)
	checkSum(t, phases[5:], n, capacity, length)
	tolerance := 0.02
	if n > 8 {
		tolerance = 0.04
	}
	worst := 0.0
	for i, c := range classes {
		rate, ideal := rateOver(phases[15:], c.ID), want.Shares[i].Bps
		worst = max(worst, math.Abs(rate-ideal)/ideal)
		if math.Abs(rate-ideal) > max(tolerance*ideal, 2*float64(length)*8) {
			t.Errorf("class %d (weight %d, min %v, max %v): %.3f Mbit/s, ideal %.3f", c.ID, c.Weight, c.Min, c.Max, rate/1e6, ideal/1e6)
		}
	}
	t.Logf("worst class off by %.2f %%", worst*100)
}

// rateOver returns what class id sent in phases that are a second together, in bits.
func rateOver(phases []phase, id plan.ClassID) (rate float64) {
	for _, p := range phases {
		rate += p.sent[id] * 8
	}
	return rate
}

// checkSum holds every second of phases of a tenth against the link: at most 0.25 % and a largest
// packet for each shard more, and 0.5 % less.
func checkSum(t *testing.T, phases []phase, shards int, capacity policy.Rate, length int) {
	t.Helper()
	for i := range len(phases) - 9 {
		sum := 0.0
		for _, p := range phases[i : i+10] {
			sum += p.total * 8
		}
		most := float64(capacity)*1.0025 + float64(shards*length*8)
		if sum > most || sum < float64(capacity)*0.995 {
			t.Errorf("second from %d on: %.4f of the link", i, sum/float64(capacity))
		}
	}
}

// TestShardsHoldGroups: members of groups are spread over the shards.
func TestShardsHoldGroups(t *testing.T) {
	const capacity, n = policy.Rate(10e9), 8
	draw := rand.New(rand.NewPCG(2, 3))
	var classes []plan.Class
	var branches []twolevel.Branch
	for g := range 4 {
		group := plan.Class{ID: plan.ClassID(1 + g), Name: fmt.Sprint("g", g), Weight: uint32(1 + g), Group: true}
		b := twolevel.Branch{Sharer: policy.Sharer{Weight: group.Weight}}
		switch g {
		case 0:
			group.Min, b.Min = 3e9, 3e9
		case 3:
			group.Max, b.Max = 2e9, 2e9
		}
		classes = append(classes, group)
		for m := range 6 {
			c := plan.Class{ID: plan.ClassID(10 + 10*g + m), Name: fmt.Sprint("c", g, m), Weight: uint32(1 + m), Parent: group.ID, Discipline: discipline.FIFO}
			if g == 0 && m == 0 {
				c.Min = 800e6
			}
			classes = append(classes, c)
			b.Members = append(b.Members, policy.Sharer{Weight: c.Weight, Min: c.Min, Demand: policy.Unlimited})
		}
		branches = append(branches, b)
	}
	want := twolevel.Divide(capacity, branches)
	s := simulateShards(n, fairLink(capacity), classes...)
	for _, c := range classes {
		for flow := range 4 {
			if !c.Group {
				s.sendTo(draw.IntN(n), traffic{id: c.ID, flow: flow, length: frames, window: 30, delay: 50 * time.Microsecond})
			}
		}
	}
	s.windows(20)
	phases := s.result(t)
	checkSum(t, phases[5:], n, capacity, frames)
	for g, b := range branches {
		for m := range b.Members {
			id := plan.ClassID(10 + 10*g + m)
			rate, ideal := rateOver(phases[10:], id), want.Groups[g].Shares[m].Bps
			if math.Abs(rate-ideal) > 0.02*ideal {
				t.Errorf("member %d of group %d: %.3f Mbit/s, ideal %.3f", m, g, rate/1e6, ideal/1e6)
			}
		}
	}
}

// TestShardsHoldWhatIsDrawn draws shards, classes and the shards of their flows. A class that its
// max binds may have less, but a third of it, where several shards have a part of the max.
func TestShardsHoldWhatIsDrawn(t *testing.T) {
	defer drawing("30", "1000")()
	rapid.Check(t, func(t *rapid.T) {
		const capacity, over = policy.Rate(1e9), time.Second
		n := rapid.IntRange(2, 8).Draw(t, "shards")
		classes, sharers, sources := drawClasses(t, capacity)
		s := simulateShards(n, fairLink(capacity), classes...)
		fmt.Fprintln(s, "seed", rapid.Uint32().Draw(t, "seed"))
		for i, src := range sources {
			sharers[i].Demand = policy.Unlimited
			for flow := range rapid.IntRange(1, 4).Draw(t, "flows") {
				s.sendTo(rapid.IntRange(0, n-1).Draw(t, "shard"), traffic{
					id: src.id, flow: flow, length: frames, window: 2 + int(capacity)/8/1000/frames, delay: 50 * time.Microsecond,
				})
			}
		}
		s.settle()
		s.run(over)
		got := s.result(t)[1]
		want := policy.Divide(capacity, sharers)
		for i, c := range classes {
			rate, ideal := got.rate(c.ID, over), want.Shares[i].Bps
			if want.Shares[i].Binds == policy.BindMax {
				ideal = max(min(rate, ideal), ideal/3)
			}
			if math.Abs(rate-ideal) > max(0.02*ideal, 2*frames*8) {
				t.Fatalf("class %d: %.3f Mbit/s, ideal %.3f of %v (%s)\n%s", c.ID, rate/1e6, ideal/1e6, capacity, want.Shares[i].Binds, s)
			}
		}
	})
}

// TestShardsBesideSteadyStreams: what a class does not use of its part all others have, not the
// ones alone that send to the same shard.
func TestShardsBesideSteadyStreams(t *testing.T) {
	const capacity = policy.Rate(1e9)
	classes := []plan.Class{
		{ID: 1, Name: "steady", Weight: 1, Min: 700e6, Discipline: discipline.FIFO}, // sends 500
		{ID: 2, Name: "beside", Weight: 1, Discipline: discipline.FIFO},
		{ID: 3, Name: "elsewhere", Weight: 2, Discipline: discipline.FIFO},
	}
	s := simulateShards(2, fairLink(capacity), classes...)
	s.sendTo(0, traffic{id: 1, length: frames, interval: 24224 * time.Nanosecond})
	s.sendTo(0, traffic{id: 2, length: frames, window: 84, delay: 50 * time.Microsecond})
	s.sendTo(1, traffic{id: 3, length: frames, interval: 16148 * time.Nanosecond}) // would send 750
	s.settle()
	s.run(time.Second)
	got := s.result(t)[1]
	for id, ideal := range map[plan.ClassID]float64{1: 500e6, 2: 500e6 / 3, 3: 1e9 / 3} {
		if rate := got.rate(id, time.Second); math.Abs(rate-ideal) > 0.02*ideal {
			t.Errorf("class %d has %.3f Mbit/s, ideal %.3f", id, rate/1e6, ideal/1e6)
		}
	}
}

// TestNewMinBesideFullShards: a class with a min, idle until then, sends its first packet within a
// millisecond and what each shard may owe, whether its shard is busy or idle; and has its rate.
func TestNewMinBesideFullShards(t *testing.T) {
	const n = 8
	for _, capacity := range []policy.Rate{1e9, 10e9, 25e9} {
		for _, to := range []int{0, n - 1} { // of which the last is idle
			t.Run(fmt.Sprintf("%v, shard %d", capacity, to), func(t *testing.T) {
				least, length := capacity/5, lengthAt(capacity)
				classes := []plan.Class{{ID: 1, Name: "promised", Weight: 1, Min: least, Discipline: discipline.FIFO}}
				for i := range 7 {
					classes = append(classes, plan.Class{ID: plan.ClassID(2 + i), Name: fmt.Sprint("c", i), Weight: 10, Discipline: discipline.FIFO})
				}
				s := simulateShards(n, fairLink(capacity), classes...)
				window := 2 + int(float64(capacity)/8*1e-3/float64(length))
				for i, c := range classes[1:] {
					s.sendTo(i, traffic{id: c.ID, length: length, window: window, delay: 50 * time.Microsecond})
				}
				s.settle()
				s.trace(1)
				s.sendTo(to, traffic{id: 1, length: length, window: window, delay: 50 * time.Microsecond})
				s.run(10 * time.Millisecond)
				s.trace(0)
				s.run(time.Second)
				phases := s.result(t)
				first := phases[1].left[1][0]
				most := time.Millisecond + time.Duration(float64(n*length*8)/float64(capacity)*1e9)
				if waited := first.at - first.born; waited > most {
					t.Errorf("its first packet waited for %v, at most %v", waited, most)
				}
				if rate := phases[2].rate(1, time.Second); math.Abs(rate-float64(least)) > 0.02*float64(least) {
					t.Errorf("it has %.3f Mbit/s of its min of %v", rate/1e6, least)
				}
			})
		}
	}
}

// TestSendersMoveBetweenShards: each flow goes to another shard ten times a second. A class may
// have a packet for each such time.
func TestSendersMoveBetweenShards(t *testing.T) {
	const capacity, n, moves = policy.Rate(10e9), 8, 10
	draw := rand.New(rand.NewPCG(1, n))
	classes, sharers := drawShardClasses(draw, capacity)
	want := policy.Divide(capacity, sharers)
	s := simulateShards(n, fairLink(capacity), classes...)
	for i, c := range classes {
		for flow := range 4 {
			window := 2 + int(want.Shares[i].Bps/8*1.5e-3/float64(frames*4))
			fmt.Fprintln(s, "hop", int(c.ID)+flow*plan.MaxClasses, (time.Second / moves).Nanoseconds())
			s.sendTo(draw.IntN(n), traffic{id: c.ID, flow: flow, length: frames, window: window, delay: 50 * time.Microsecond})
		}
	}
	s.windows(20)
	phases := s.result(t)
	checkSum(t, phases[5:], n, capacity, frames)
	for i, c := range classes {
		rate, ideal := rateOver(phases[10:], c.ID), want.Shares[i].Bps
		if math.Abs(rate-ideal) > max(0.02*ideal, 2*frames*8)+4*moves*frames*8 {
			t.Errorf("class %d: %.3f Mbit/s, ideal %.3f", c.ID, rate/1e6, ideal/1e6)
		}
	}
}

// TestLoneShardIsAsOneQueue: while one shard alone has packets, no division is made, and its
// classes have what a link with one queue gives them, with as many timers and no longer waits.
func TestLoneShardIsAsOneQueue(t *testing.T) {
	const capacity = policy.Rate(1e9)
	classes := []plan.Class{{ID: 1, Name: "a", Weight: 1}, {ID: 2, Name: "b", Weight: 3}, {ID: 3, Name: "ping", Weight: 1}}
	load := func(s *simulation) phase {
		s.send(traffic{id: 1, length: frames, window: 90, delay: 50 * time.Microsecond})
		s.send(traffic{id: 2, length: frames, window: 90, delay: 50 * time.Microsecond})
		s.send(traffic{id: 3, length: 98, interval: 10 * time.Millisecond})
		s.settle()
		s.run(time.Second)
		return s.result(t)[1]
	}
	shards := simulateShards(8, fairLink(capacity), classes...)
	fmt.Fprintln(shards, "tardy 0")
	got, want := load(shards), load(simulate(fairLink(capacity), classes...))
	if got.alone != 1 || got.divisions > 2 {
		t.Errorf("shard %d has the link alone, after %d divisions", got.alone-1, got.divisions)
	}
	for _, c := range classes {
		if math.Abs(got.sent[c.ID]/want.sent[c.ID]-1) > 0.001 {
			t.Errorf("%s sent %.0f bytes, and %.0f through one queue", c.Name, got.sent[c.ID], want.sent[c.ID])
		}
	}
	if math.Abs(float64(got.timers)/float64(want.timers)-1) > 0.03 {
		t.Errorf("%d timers, %d of one queue", got.timers, want.timers)
	}
	if got.longest[3] > want.longest[3]+20*time.Microsecond {
		t.Errorf("a ping waited for %v, and %v in one queue", got.longest[3], want.longest[3])
	}
}

// TestShardIsAloneAgain: the link is divided while a second shard has packets, and no longer.
func TestShardIsAloneAgain(t *testing.T) {
	const capacity = policy.Rate(1e9)
	s := simulateShards(2, fairLink(capacity), plan.Class{ID: 1, Name: "a", Weight: 1}, plan.Class{ID: 2, Name: "b", Weight: 1})
	s.sendTo(0, traffic{id: 1, length: frames, window: 90, delay: 50 * time.Microsecond})
	s.settle()
	s.sendTo(1, traffic{id: 2, length: frames, window: 90, delay: 50 * time.Microsecond})
	s.settle()
	s.stop(2)
	s.settle()
	s.settle()
	phases := s.result(t)
	if phases[0].alone != 1 || phases[1].alone != 0 || phases[2].alone != 1 {
		t.Errorf("alone was %d, %d, %d, want 1, 0, 1", phases[0].alone, phases[1].alone, phases[2].alone)
	}
	if phases[3].divisions != phases[2].divisions {
		t.Errorf("the link was divided %d times more", phases[3].divisions-phases[2].divisions)
	}
	for i, want := range []float64{1, 0.5, 1, 1} {
		if got := phases[i].rate(1, settling) / float64(capacity); math.Abs(got-want) > 0.005 {
			t.Errorf("second %d: the first shard has %.4f of the link, want %v", i, got, want)
		}
	}
}

// TestShardWhoseCPUStops: what its shard does not send others do, and not more than the link.
func TestShardWhoseCPUStops(t *testing.T) {
	const capacity, n = policy.Rate(10e9), 4
	var classes []plan.Class
	for i := range n {
		classes = append(classes, plan.Class{ID: plan.ClassID(1 + i), Name: fmt.Sprint("c", i), Weight: 1, Discipline: discipline.FIFO})
	}
	s := simulateShards(n, fairLink(capacity), classes...)
	for i, c := range classes {
		s.sendTo(i, traffic{id: c.ID, length: frames, window: 2000, delay: 50 * time.Microsecond})
	}
	s.settle()
	for range 10 {
		fmt.Fprintln(s, "stall", n-1, (20 * time.Millisecond).Nanoseconds())
		s.windows(1)
	}
	phases := s.result(t)[1:]
	checkSum(t, phases, n, capacity, frames)
	for _, c := range classes[:n-1] {
		if rate := rateOver(phases, c.ID); rate < 0.995*float64(capacity)/n {
			t.Errorf("%s has %.4f of the link", c.Name, rate/float64(capacity))
		}
	}
}
