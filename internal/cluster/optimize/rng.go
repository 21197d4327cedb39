// SPDX-License-Identifier: Apache-2.0

package optimize

import "math/bits"

// rng is a generator of pseudo-random numbers, SplitMix64 (Steele, Lea and Flood
// 2014). It is a value that a seed determines on every machine and with every
// release of Go, which the library's do not promise.
type rng struct{ state uint64 }

func newRNG(seed uint64) *rng { return &rng{seed} }

func (r *rng) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1; n is positive. The bias is n/2^64.
func (r *rng) below(n int) int {
	high, _ := bits.Mul64(r.next(), uint64(n))
	return int(high)
}

// float returns a number from 0 to 1, 1 excluded.
func (r *rng) float() float64 { return float64(r.next()>>11) / (1 << 53) }
