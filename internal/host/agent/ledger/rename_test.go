// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"
	"time"

	"weir/internal/core/policy/quota"
)

// What was counted goes with workloads that are renamed: of this day and of those before, over a
// restart, and the same for what their quotas have counted. Another one that gets the name has
// nothing.
func TestRename(t *testing.T) {
	dir, at := t.TempDir(), start
	l := open(t, dir)
	bytes := map[string]uint64{}
	take := func(key string, n uint64) {
		id := map[string]int{"a": 0, "b": 1, "c": 2}[key]
		r := reading("boot", bytes["a"], bytes["b"], bytes["c"])
		if n > 0 {
			bytes[key] += n
			r.Classes[id].Bytes = bytes[key]
		}
		for i, key := range []string{"a", "b", "c"} {
			r.Classes[i].Owner = Owner{Key: "docker:" + key, Name: key}
		}
		l.Take(at, r)
	}
	q := map[string]quota.Quota{"docker:b": {Egress: 1e9, Per: quota.Month}}
	take("a", 0)
	take("a", 1)
	take("b", 10)
	if s := l.Follow(at, q)["docker:b"]; s.Sent != 10 {
		t.Errorf("the quota has %d bytes", s.Sent)
	}
	at = at.Add(24 * time.Hour)
	take("a", 100)
	take("b", 1000)
	// a and b exchange their names.
	l.Rename(at, map[string]Owner{"docker:a": {Key: "docker:b", Name: "b"}, "docker:b": {Key: "docker:a", Name: "a"}})
	bytes["a"], bytes["b"] = bytes["b"], bytes["a"]
	expect := func(want map[string]uint64) {
		t.Helper()
		for key, n := range want {
			if got := sent(t, l, key); got != n {
				t.Errorf("%s sent %d bytes, want %d", key, got, n)
			}
		}
	}
	expect(map[string]uint64{"docker:a": 1010, "docker:b": 101})
	if s := l.Follow(at, map[string]quota.Quota{"docker:a": q["docker:b"]})["docker:a"]; s.Sent != 1010 {
		t.Errorf("its quota has %d bytes after the exchange", s.Sent)
	}
	at = at.Add(24 * time.Hour)
	l.Rename(at, map[string]Owner{"docker:a": {Key: "docker:c", Name: "c"}}) // still in the day before
	l = open(t, dir)
	expect(map[string]uint64{"docker:a": 0, "docker:b": 101, "docker:c": 1010})
}
