// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"slices"
	"strings"
)

// Closest is up to n of the known words that word may have been meant for, the
// nearest first; none if nothing is near enough to be a typing error.
func Closest(word string, known []string, n int) []string {
	type near struct {
		word     string
		distance int
	}
	var found []near
	for _, k := range known {
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if d <= max(2, len(k)/3) && d < len(k) || strings.HasPrefix(k, word) && word != "" {
			found = append(found, near{k, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.word, b.word))
	})
	words := make([]string, 0, n)
	for _, f := range found[:min(n, len(found))] {
		words = append(words, f.word)
	}
	return words
}

// distance counts the insertions, removals and replacements that turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := diagonal
			if a[i-1] != b[j-1] {
				change++
			}
			diagonal = row[j]
			row[j] = min(change, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
