// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"maps"
	"strings"
	"testing"

	"weir/internal/host/discover"
)

// list returns workloads of "key=id key=id".
func list(text string) (all []discover.Workload) {
	for _, f := range strings.Fields(text) {
		key, id, _ := strings.Cut(f, "=")
		all = append(all, discover.Workload{Key: key, ID: id})
	}
	return all
}

func TestRenamed(t *testing.T) {
	for _, tt := range []struct {
		name, before, after string
		want                map[string]string
	}{
		{"one", "a=1 b=2", "c=1 b=2", map[string]string{"a": "c"}},
		{"none", "a=1 b=2", "a=1 b=2", nil},
		{"two exchange their names", "a=1 b=2", "b=1 a=2", map[string]string{"a": "b", "b": "a"}},
		{"one makes room for another", "a=1 new=2", "old=1 a=2", map[string]string{"a": "old", "new": "a"}},
		{"in the place of one that has gone", "a=1 new=2", "a=2", nil},
		{"another one is made in the old place", "a=1", "old=1 a=2", nil},
		{"one that stays, and another one with its id", "a=1", "a=1 b=1", nil},
		{"without ids", "a b", "c b", nil},
	} {
		if got := Renamed(list(tt.before), list(tt.after)); !maps.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
