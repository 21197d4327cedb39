// SPDX-License-Identifier: Apache-2.0

// Package cases has the numbers of a run's cases, drawn in the form that the papers have (a group
// of bars for each case) and in words.
package cases

import (
	"fmt"
	"math"
	"strings"
)

// Largest of some numbers, 0 at least.
func Largest(list []float64) (most float64) {
	for _, v := range list {
		most = max(most, v)
	}
	return most
}

// Spread is the distance of the least and the most.
func Spread(list []float64) float64 {
	least := math.Inf(1)
	for _, v := range list {
		least = min(least, v)
	}
	return Largest(list) - least
}

// Joined writes "1.0, 2.0 and 3.0 ms".
func Joined(list []float64, format, unit string) string {
	var words []string
	for _, v := range list {
		words = append(words, fmt.Sprintf(format, v))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last] + " " + unit
}
