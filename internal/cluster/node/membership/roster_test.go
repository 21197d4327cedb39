// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"
	"time"

	"weir/internal/core/wire"
)

// TestOlderListIsNotTaken: a list with a lower sequence is refused, after a restart of the
// node too, and a list of a former process does not count as confirmed.
func TestOlderListIsNotTaken(t *testing.T) {
	file := rosterFile(t.TempDir())
	r, err := openRoster(file)
	if err == nil {
		err = r.take(wire.Members{Sequence: 7}, time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	r.confirm(time.Now())
	again, err := openRoster(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*roster{"as it is": r, "opened again": again} {
		if err := r.take(wire.Members{Sequence: 6}, time.Now()); err == nil || r.sequence() != 7 {
			t.Errorf("%s: an older list was taken, sequence %d", name, r.sequence())
		}
	}
	if r.age(time.Now()) > time.Minute || again.age(time.Now()) < time.Hour {
		t.Errorf("confirmed %v and %v ago", r.age(time.Now()), again.age(time.Now()))
	}
}
