// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"strconv"
	"strings"
)

// Images bounds the manager's own image registry, in bytes. Zero values mean its own
// defaults.
type Images struct {
	PerNode  int64 // of layers that one node was the first to push
	Total    int64
	KeepFree int64 // of the disk
}

func (i *Images) read(fields node) {
	fields.fields([]string{"per_node", "total", "keep_free"}, func(key string, value node) {
		switch key {
		case "per_node":
			readBytes(value, &i.PerNode)
		case "total":
			readBytes(value, &i.Total)
		case "keep_free":
			readBytes(value, &i.KeepFree)
		}
	})
	if i.PerNode > 0 && i.Total > 0 && i.PerNode > i.Total {
		fields.wrong("per_node is more than total: give one node at most what all have")
	}
}

// byteUnits has the units of sizes, the longer names first.
var byteUnits = []struct {
	name  string
	bytes float64
}{{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}}

// readBytes reads a size such as 500MB or 20GB.
func readBytes(value node, into *int64) {
	text, ok := value.text()
	if !ok {
		return
	}
	number, factor := strings.ToUpper(strings.TrimSpace(text)), 0.0
	for _, unit := range byteUnits {
		if before, found := strings.CutSuffix(number, unit.name); found {
			number, factor = strings.TrimSpace(before), unit.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	if bytes := n * factor; err == nil && bytes >= 1 && bytes < math.MaxInt64 {
		*into = int64(bytes)
		return
	}
	value.wrong("%q is no size; give one such as 500MB or 20GB", text)
}
