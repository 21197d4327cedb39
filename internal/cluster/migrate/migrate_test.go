// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// TestACounterGoesOn: memory and files go on exactly, whichever way they take, there
// and back.
func TestACounterGoesOn(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})
	for _, approach := range []migrate.Approach{migrate.ApproachLayer, migrate.ApproachCommit, migrate.ApproachExport} {
		t.Run(string(approach), func(t *testing.T) {
			b := *b
			b.t = t
			name := "count-" + string(approach)
			b.start("a", name, nil, "mib=8", "files=2")
			for _, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
				before, _ := b.Store.Traffic()
				r := b.migrate(name, way[0], way[1], migrate.Request{Approach: approach, Registry: b.Registry})
				if r.State != wire.MoveDone {
					t.Fatalf("%s: %s%s", r.State, r.Err, steps(r))
				}
				after, _ := b.Store.Traffic()
				if said, came := pushed(r), after-before; said > came || came-said > configBytes {
					t.Errorf("%d bytes pushed are shown, %d came to the registry%s", said, came, steps(r))
				}
				at := b.waitCount(way[1], name, 0)
				c := b.waitCount(way[1], name, at.Last+3)
				if c.First != 0 || c.Starts != 1 {
					t.Errorf("its file begins at %d and it has started %d times", c.First, c.Starts)
				}
				t.Logf("%s to %s: downtime %v, gap of the program %v, %d bytes%s", way[0], way[1], r.Downtime, c.Gap, r.Bytes, steps(r))
				if names, err := b.Node(way[0]).Running(t.Context()); err != nil || len(names) > 0 {
					t.Errorf("%v still run on %s (%v)", names, way[0], err)
				}
			}
			b.must(b.Node("a").Remove(t.Context(), name))
		})
	}
}

// configBytes is room for the configurations of images, which travel beside the layers
// that are shown.
const configBytes = 16 << 10

// pushed is how many bytes a migration says to have sent to the registry.
func pushed(r migrate.Result) (sum int64) {
	for _, s := range r.Steps {
		switch step := move.Step(s.Step); {
		case step == move.Push, step == move.PushImage, step == move.PullImage && s.Outcome.Note != "":
			sum += s.Outcome.Bytes
		}
	}
	return sum
}
