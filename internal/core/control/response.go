// SPDX-License-Identifier: Apache-2.0

package control

import "math"

// Response describes an output on its way from one level to another.
type Response struct {
	Rise      float64 // seconds from 10 % to 90 % of the way; NaN if it never got there
	Overshoot float64 // beyond the target, part of the target; 0 if none
	Settle    float64 // seconds after which it stays within 2 % of the target; NaN if never
	Steady    float64 // mean of the last third less the target, part of the target
}

// settleBand is the part of the target within which an output has settled.
const settleBand = 0.02

// Respond measures the response in values, one every interval seconds, the first of
// which ends one interval after the target was changed from before (0 at the start).
func Respond(values []float64, interval, before, target float64) Response {
	r := Response{Rise: math.NaN(), Settle: math.NaN(), Steady: math.NaN()}
	if len(values) == 0 || target == 0 {
		return r
	}
	low, high := math.NaN(), math.NaN()
	way := target - before
	last := -1 // the last value outside the band
	for i, v := range values {
		at := float64(i+1) * interval
		part := (v - before) / way
		if math.IsNaN(low) && part >= 0.1 {
			low = at
		}
		if math.IsNaN(high) && part >= 0.9 {
			high = at
		}
		beyond := v - target
		if way < 0 {
			beyond = -beyond
		}
		r.Overshoot = max(r.Overshoot, beyond/target)
		if math.Abs(v-target) > settleBand*target {
			last = i
		}
	}
	r.Rise = high - low
	if last < len(values)-1 {
		r.Settle = float64(last+1) * interval
	}
	tail := values[len(values)-max(1, len(values)/3):]
	sum := 0.0
	for _, v := range tail {
		sum += v
	}
	r.Steady = sum/float64(len(tail))/target - 1
	return r
}
