// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"time"
)

// settle is the time for which a source waits after a change for more of them: starting a
// container is a handful of link messages within a millisecond.
const settle = 2 * time.Millisecond

// linkTable is the interface of Links to sources; tests put a fake in its place.
type linkTable interface {
	Watch() (changes <-chan struct{}, stop func())
	list() []link
	resolve(path string) (*namespace, error)
	alive(ns *namespace) bool
	devices(ns *namespace) []Device
	unclaimed(claimed map[*namespace]bool) map[int]bool
}

// reporter passes lists on that differ from the one before.
type reporter struct {
	report func([]Workload)
	last   []Workload
	done   bool // something was reported
}

func (r *reporter) send(list []Workload) {
	slices.SortFunc(list, func(a, b Workload) int { return strings.Compare(a.Key, b.Key) })
	if r.done && reflect.DeepEqual(list, r.last) {
		return
	}
	r.last, r.done = list, true
	r.report(slices.Clone(list)) // what the receiver does to its copy is its business
}

// follow reports list's result now and whenever it has changed after a change of
// devices or a poke.
func follow(ctx context.Context, links linkTable, poke <-chan struct{}, list func() []Workload, report func([]Workload)) error {
	changes, stop := links.Watch()
	defer stop()
	return followPokes(ctx, changes, poke, list, report)
}

// followPokes reports list's result now and whenever it has changed after a value
// from one of the channels; changes may be nil.
func followPokes(ctx context.Context, changes, poke <-chan struct{}, list func() []Workload, report func([]Workload)) error {
	out := reporter{report: report}
	timer := time.NewTimer(0) // fires at once, for the first report
	defer timer.Stop()
	waiting := true
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes:
		case <-poke:
		case <-timer.C:
			waiting = false
			out.send(list())
			continue
		}
		if !waiting { // a timer that runs is not put off, so that a storm delays nothing
			waiting = true
			timer.Reset(settle)
		}
	}
}
