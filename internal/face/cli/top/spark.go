// SPDX-License-Identifier: Apache-2.0

package top

import (
	"math"
	"strings"
)

var levels = []rune("▁▂▃▄▅▆▇█")

// spark draws the last minute in width characters, now at the right. Each
// character is the mean of the seconds it stands for; full height is ceiling.
// Seconds that are not known, and those without traffic, are blank.
func spark(history []float64, width int, ceiling float64) string {
	if width <= 0 {
		return ""
	}
	width = min(width, historyLength)
	var b strings.Builder
	for i := range width {
		// Seconds ago, counted from the right end: this character's part of 60.
		from := historyLength - i*historyLength/width
		to := historyLength - (i+1)*historyLength/width
		b.WriteRune(level(mean(history, from, to), ceiling))
	}
	return b.String()
}

// mean returns the mean of the known values between two ages in seconds, NaN if none is
// known.
func mean(history []float64, from, to int) float64 {
	sum, n := 0.0, 0
	for ago := from; ago > to; ago-- {
		i := len(history) - ago
		if i >= 0 && !math.IsNaN(history[i]) {
			sum += history[i]
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

func level(value, ceiling float64) rune {
	if !(value > 0) || !(ceiling > 0) {
		return ' '
	}
	i := int(math.Ceil(value/ceiling*float64(len(levels)))) - 1
	return levels[min(max(i, 0), len(levels)-1)]
}

// ceilingOf returns the largest rate in any of the histories: rows of one link are drawn
// to one scale, so that they can be compared by eye.
func ceilingOf(rows []row) float64 {
	top := 0.0
	for _, r := range rows {
		for _, v := range r.history {
			if v > top { // never true for NaN
				top = v
			}
		}
	}
	return top
}
