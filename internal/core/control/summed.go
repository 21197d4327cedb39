// SPDX-License-Identifier: Apache-2.0

package control

import "weir/internal/core/policy"

// arrival is the paper's PacketArrivalInterval: a packet of 1 KB at 100 Mbit/s, in milliseconds.
const arrival = 8 * 1024 / 100e6 * 1e3

// summed is the paper's control law as it is printed: equation 1 adds the terms to u, in Mbit/s;
// the converting equation makes arrival / u of it, in milliseconds; and equation 4 adds that to the
// interval between two packets, with which it began.
//
// While u is above 0 the interval only grows, so a flow that is short of its reservation becomes
// slower, and one that has it loses it. While u is below 0 the interval shrinks to nothing. So it
// holds no rate, with any gains. What the paper's program did is not known; a law that adds the
// difference of two intervals, arrival / u now and before, is Weir's own with packets for bytes.
type summed struct{ u float64 }

// next returns the output for full frames, in wire bits per second.
func (s *summed) next(wire, terms float64) float64 {
	const bits = policy.FullFrame * 8
	s.u += terms / 1e6
	if s.u == 0 {
		return wire
	}
	interval := bits/wire*1e3 + arrival/s.u
	if interval <= 0 { // u is below 0: as fast as the bounds let it
		return 1e12
	}
	return bits / interval * 1e3
}
