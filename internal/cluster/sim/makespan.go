// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"

	"weir/internal/cluster/optimize"
)

// Makespan returns how many seconds a plan's moves take from the first's beginning to the
// last's end, if at most parallel of them are under way at once (0 = DefaultParallel).
//
// A move takes the fixed part of the problem's cost and then sends its bytes at the
// cost's rate, or more slowly: what leaves a node shares its link for sending, what comes
// shares the receiver's, each in equal parts. A node whose capacity is not known holds no
// move up. Moves begin in their order, but one that waits lets others pass: it begins
// after those before it that leave its target, for it may need their room.
func Makespan(p *optimize.Problem, moves []optimize.Relocation, parallel int) float64 {
	if parallel <= 0 {
		parallel = DefaultParallel
	}
	r := run{p: p, moves: moves, sending: make([]int, len(p.Nodes)), receiving: make([]int, len(p.Nodes)), leaving: make([]int, len(p.Nodes)),
		begun: make([]bool, len(moves)), free: parallel, cost: p.Cost}
	if r.cost == (optimize.MoveCost{}) {
		r.cost = optimize.DefaultCost
	}
	for r.done < len(moves) {
		r.begin()
		r.advance()
	}
	return r.now
}

// run is the moves under way.
type run struct {
	p                  *optimize.Problem
	cost               optimize.MoveCost
	moves              []optimize.Relocation
	begun              []bool
	first              int // all before it have begun
	active             []transfer
	sending, receiving []int // of each node, how many send bytes now
	leaving            []int // room for begin
	free, done         int
	now                float64
}

type transfer struct {
	move  int
	fixed float64 // seconds left
	bytes float64 // left after that
}

// begin starts what may start.
func (r *run) begin() {
	clear(r.leaving)
	for _, t := range r.active {
		r.leaving[r.moves[t.move].From]++
	}
	for r.first < len(r.moves) && r.begun[r.first] {
		r.first++
	}
	for i := r.first; i < len(r.moves) && r.free > 0; i++ {
		if r.begun[i] {
			continue
		}
		m := &r.moves[i]
		if r.leaving[m.To] == 0 {
			r.begun[i] = true
			r.free--
			r.active = append(r.active, transfer{i, r.cost.FixedSeconds, m.Bytes})
		}
		r.leaving[m.From]++ // whether it waits or is under way
	}
}

// rate of a transfer that sends.
func (r *run) rate(t *transfer) float64 {
	m := &r.moves[t.move]
	rate := math.Inf(1)
	if r.cost.BytesPerSecond > 0 {
		rate = r.cost.BytesPerSecond
	}
	if c := r.p.Nodes[m.From].Capacity[optimize.Transmit]; c > 0 {
		rate = min(rate, c/8/float64(r.sending[m.From]))
	}
	if c := r.p.Nodes[m.To].Capacity[optimize.Receive]; c > 0 {
		rate = min(rate, c/8/float64(r.receiving[m.To]))
	}
	return rate
}

// advance goes to the next moment at which something changes.
func (r *run) advance() {
	clear(r.sending)
	clear(r.receiving)
	for _, t := range r.active {
		if t.fixed == 0 {
			r.sending[r.moves[t.move].From]++
			r.receiving[r.moves[t.move].To]++
		}
	}
	step := math.Inf(1)
	for i := range r.active {
		t := &r.active[i]
		if t.fixed > 0 {
			step = min(step, t.fixed)
		} else {
			step = min(step, t.bytes/r.rate(t))
		}
	}
	left := r.active[:0]
	for i := range r.active {
		t := r.active[i]
		if t.fixed > 0 {
			t.fixed = settle(t.fixed-step, 1e-9)
		} else if rate := r.rate(&t); math.IsInf(rate, 1) {
			t.bytes = 0
		} else {
			t.bytes = settle(t.bytes-step*rate, 1e-3)
		}
		if t.fixed == 0 && t.bytes == 0 {
			r.free++
			r.done++
			continue
		}
		left = append(left, t)
	}
	r.active = left
	r.now += step
}

// settle makes nothing of what rounding has left over.
func settle(left, least float64) float64 {
	if left < least {
		return 0
	}
	return left
}
