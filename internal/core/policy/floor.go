// SPDX-License-Identifier: Apache-2.0

package policy

import "math/bits"

// Floor is a min that a workload has or asks for.
type Floor struct {
	Name string // the workload's, for people
	Min  Rate
}

// Sum adds up mins.
func Sum(floors []Floor) Rate {
	var sum uint64
	for _, f := range floors {
		var carry uint64
		if sum, carry = bits.Add64(sum, uint64(f.Min), 0); carry != 0 {
			return Unlimited
		}
	}
	return Rate(sum)
}
