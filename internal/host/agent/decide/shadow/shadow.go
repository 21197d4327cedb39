// SPDX-License-Identifier: Apache-2.0

// Package shadow says what was set at run time and so hides what a configuration says. Pure.
//
// Example: after weir set web --max 5mbit, an edit of web's max in weir.yaml has no effect:
//
//	shadow.Fields(decided, next)    // ["web: max"]
package shadow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/config"
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
)

// Names returns the workloads and groups that have settings made at run time, those that
// do not run now by their keys.
func Names(d decide.Decision) []string {
	named := d.ByKey()
	var names []string
	for _, key := range slices.Sorted(maps.Keys(d.World.Set)) {
		name := key
		if v := named[key]; v != nil {
			name = v.Name
		}
		names = append(names, name)
	}
	for _, group := range slices.Sorted(maps.Keys(d.World.Groups)) {
		if !d.World.Groups[group].Empty() {
			names = append(names, "group "+group)
		}
	}
	return names
}

// Fields returns the fields that a configuration changes and that have no effect, since they
// were set at run time: "web: max".
func Fields(d decide.Decision, next config.Config) (list []string) {
	for _, v := range d.Rulings {
		was, is := d.World.Config.LayerFor(v.Name), next.LayerFor(v.Name)
		if fields := hidden(d.World.Set[v.Key], was, is); len(fields) > 0 {
			list = append(list, v.Name+": "+strings.Join(fields, ", "))
		}
	}
	layer := func(c config.Config, name string) (layer policy.Change) {
		for _, g := range c.Groups {
			if g.Name == name {
				layer = g.Layer
			}
		}
		return layer
	}
	for _, v := range d.Groups {
		if fields := hidden(d.World.Groups[v.Name], layer(d.World.Config, v.Name), layer(next, v.Name)); len(fields) > 0 {
			list = append(list, fmt.Sprintf("group %s: %s", v.Name, strings.Join(fields, ", ")))
		}
	}
	return list
}

// hidden returns the fields of set in which was and is differ.
func hidden(set, was, is policy.Change) (fields []string) {
	before, after := was.Texts(), is.Texts()
	for _, field := range slices.Sorted(maps.Keys(set.Texts())) {
		if before[field] != after[field] {
			fields = append(fields, field)
		}
	}
	return fields
}
