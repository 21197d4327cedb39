// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"

	"weir/internal/core/workload"
)

// HostKey is the key of the host itself, whose class is always 0.
const HostKey = "host"

// GroupKey returns the key of the group of this name. Groups are numbered with the
// workloads, and no workload has such a key.
func GroupKey(name string) string { return workload.Key(workload.KindGroup, name) }

// ZoneKey returns the key of the class that the link of a zone, by its name, has on the
// device's own link.
func ZoneKey(link string) string { return "zone:" + link }

// Number gives each key its class number. A key that prev has keeps its number,
// also if it was away for a while, so that a container which is stopped and
// started again finds its counters. New keys get numbers in their order.
//
// The result is meant to be kept and passed as prev the next time; it holds the
// keys of prev that are gone, too. Only when all numbers from 1 to MaxClasses-1
// are given does Number drop those keys and give their numbers anew, lowest first.
// Numbers are given in rising order, so that is about the order in which they
// fell free: the number of a workload that has just gone is among the last to
// get another meaning.
//
// HostKey is always 0. A key for which no number is left is not in the result,
// and Build refuses it. Entries of prev that cannot be right (a number given
// twice, or out of range) are dropped, so that a damaged file does no harm.
func Number(prev map[string]ClassID, keys []string) map[string]ClassID {
	return NumberWithin(MaxClasses, prev, keys)
}

// NumberWithin does the same as Number with numbers below limit only, 1 to MaxClasses; see
// Mask.MaxClasses.
func NumberWithin(limit int, prev map[string]ClassID, keys []string) map[string]ClassID {
	all := newNumbering(limit)
	for _, key := range keys { // before those that are gone, should two have one number
		all.keep(prev, key)
	}
	if numbers, ok := all.clone().give(prev, keys, true); ok {
		return numbers
	}
	numbers, _ := all.give(prev, keys, false)
	return numbers
}

// numbering holds class numbers while they are being given.
type numbering struct {
	limit ClassID
	byKey map[string]ClassID
	taken [MaxClasses]bool
}

func newNumbering(limit int) *numbering {
	return &numbering{limit: ClassID(limit), byKey: map[string]ClassID{}}
}

func (n *numbering) clone() *numbering {
	return &numbering{limit: n.limit, byKey: maps.Clone(n.byKey), taken: n.taken}
}

// keep lets key have the number that it had.
func (n *numbering) keep(prev map[string]ClassID, key string) {
	if key == HostKey {
		n.byKey[key] = 0
		return
	}
	id, ok := prev[key]
	if _, done := n.byKey[key]; !ok || done || id == 0 || id >= n.limit || n.taken[id] {
		return
	}
	n.byKey[key], n.taken[id] = id, true
}

// give numbers the keys that have none yet, around the numbers of those that
// are gone if withGone says so; ok says whether there were enough.
func (n *numbering) give(prev map[string]ClassID, keys []string, withGone bool) (numbers map[string]ClassID, ok bool) {
	if withGone {
		for _, key := range slices.Sorted(maps.Keys(prev)) {
			n.keep(prev, key)
		}
	}
	id := ClassID(1)
	for _, key := range keys {
		if _, done := n.byKey[key]; done {
			continue
		}
		for id < n.limit && n.taken[id] {
			id++
		}
		if id == n.limit {
			return n.byKey, false
		}
		n.byKey[key], n.taken[id] = id, true
	}
	return n.byKey, true
}
