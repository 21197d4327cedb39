// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// killTable counts the ends of moves, by engine and part.
type killTable struct {
	kills int
	rows  map[string]map[string]int
}

func (table *killTable) add(d draw, end string, bad bool) {
	if table.rows == nil {
		table.rows = map[string]map[string]int{}
	}
	table.kills++
	for _, row := range []string{fmt.Sprintf("%-6s %s", d.engine, d.part), fmt.Sprintf("%-6s in %s", d.engine, d.network), "~ all"} {
		if table.rows[row] == nil {
			table.rows[row] = map[string]int{}
		}
		table.rows[row][end]++
		if bad {
			table.rows[row]["WRONG"]++
		}
	}
}

func (table *killTable) String() string {
	ends := []string{"rolled-back", "done", "ended by its engine", "memory lost with its engine", "not there", "WRONG"}
	text := fmt.Sprintf("%-24s", "")
	for _, end := range ends {
		text += fmt.Sprintf(" | %*s", len(end), end)
	}
	for _, row := range slices.Sorted(maps.Keys(table.rows)) {
		text += fmt.Sprintf("\n%-24s", strings.TrimPrefix(row, "~ "))
		for _, end := range ends {
			text += fmt.Sprintf(" | %*d", len(end), table.rows[row][end])
		}
	}
	return text
}
