// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"testing"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
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
				r := b.migrate(name, way[0], way[1], migrate.Request{Approach: approach, Registry: b.Registry})
				if r.State != migrate.StateDone {
					t.Fatalf("%s: %s%s", r.State, r.Err, steps(r))
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
