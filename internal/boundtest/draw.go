// SPDX-License-Identifier: Apache-2.0

package boundtest

import (
	"math/rand/v2"
	"strings"
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
