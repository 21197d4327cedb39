// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/workload"
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

// A list that was made before a pod was detached takes nothing from what is kept of it.
func TestExpected(t *testing.T) {
	before := []discover.Workload{{Key: "pod:a", Kind: workload.KindPod, Ended: true}, {Key: "pod:b", Kind: workload.KindPod, ID: "2"}}
	late := []discover.Workload{{Key: "pod:a", Kind: workload.KindPod, ID: "1"}, {Key: "pod:b", Kind: workload.KindPod, ID: "2"}, {Key: "pod:c", Kind: workload.KindPod, ID: "3"}}
	for _, tt := range []struct {
		name, expected, want string
	}{
		{"one that was detached", "pod:b pod:c", "pod:a ended, pod:b 2, pod:c 3"},
		{"another one of its name is there", "pod:a pod:b pod:c", "pod:a 1, pod:b 2, pod:c 3"},
		{"one that was never there", "pod:a pod:b", "pod:a 1, pod:b 2"},
	} {
		var got []string
		for _, w := range Expected(before, late, func(w discover.Workload) bool { return slices.Contains(strings.Fields(tt.expected), w.Key) }) {
			how := w.ID
			if w.Ended {
				how = "ended"
			}
			got = append(got, w.Key+" "+how)
		}
		if text := strings.Join(got, ", "); text != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
		}
	}
}
