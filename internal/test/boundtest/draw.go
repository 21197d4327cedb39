// SPDX-License-Identifier: Apache-2.0

package boundtest

import (
	"math/rand/v2"
	"strings"

	"weir/internal/core/bound"
)

// Draw returns a hostile text of up to most bytes: a few of the shapes' units, each repeated,
// behind each other. Short and long ones are as frequent.
func Draw(r *rand.Rand, most int) string {
	var b strings.Builder
	length := min(most, 1<<r.IntN(23))
	for b.Len() < length {
		unit := units[r.IntN(len(units))]
		times := 1 + r.IntN(1<<r.IntN(18))
		b.WriteString(strings.Repeat(unit, min(times, (length-b.Len())/len(unit)+1)))
	}
	return b.String()[:length]
}

// Named returns one to four of the fields of a policy, each with a hostile text of up to most
// bytes. One in eight is a text that can be read and costs most.
func Named(r *rand.Rand, names []string, most int) map[string]string {
	named := map[string]string{}
	for range 1 + r.IntN(4) {
		named[names[r.IntN(len(names))]] = Draw(r, most)
	}
	if r.IntN(8) == 0 {
		fields := Fields(bound.Label)
		costly := fields[r.IntN(len(fields))]
		named["discipline"], named[costly[0]] = "pq", costly[1]
	}
	return named
}
