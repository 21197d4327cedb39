// SPDX-License-Identifier: Apache-2.0

// Package closest finds the known words that a mistyped word was meant for, for the
// "did you mean" of error messages. Example: of the known words egress and
// scheduler, "egres" was meant to be egress.
package closest

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Words returns up to n of the known words that word may have been meant for, the
// nearest first; none if nothing is near enough to be a typing error.
func Words(word string, known []string, n int) []string {
	type near struct {
		word     string
		distance int
	}
	var found []near
	length := utf8.RuneCountInString(word)
	for _, k := range known {
		if length > len(k)+max(2, len(k)/3) {
			continue // at least so many letters are to be deleted
		}
		d := Distance(word, k)
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

// Distance counts the letters to insert, delete, replace or swap with their
// neighbour to turn a into b (optimal string alignment), letter
// case aside.
func Distance(a, b string) int {
	x, y := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(x)][len(y)]
}
