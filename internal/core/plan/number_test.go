// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		name string
		prev map[string]ClassID
		keys []string
		want map[string]ClassID
	}{
		{"first come, first numbered", nil, []string{"b", "a"}, map[string]ClassID{"b": 1, "a": 2}},
		{"the host is 0", nil, []string{"a", HostKey, "b"}, map[string]ClassID{"a": 1, HostKey: 0, "b": 2}},
		{"who stays keeps his, who is gone is remembered", map[string]ClassID{"a": 1, "b": 2}, []string{"c", "b"},
			map[string]ClassID{"a": 1, "b": 2, "c": 3}},
		{"a key twice", nil, []string{"a", "a"}, map[string]ClassID{"a": 1}},
		{"damaged memory", map[string]ClassID{"a": 5, "b": 5, "c": 0, "d": MaxClasses, HostKey: 7}, []string{"b", "c", "d", HostKey},
			map[string]ClassID{"b": 5, "c": 1, "d": 2, HostKey: 0}},
		{"nobody", nil, nil, map[string]ClassID{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(tt.prev)
			if got := Number(tt.prev, tt.keys); !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !maps.Equal(before, tt.prev) {
				t.Errorf("prev was changed to %v", tt.prev)
			}
		})
	}
}

func keys(from, to int) []string {
	var list []string
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprintf("k%05d", i))
	}
	return list
}

func TestNumberWhenAllAreGiven(t *testing.T) {
	const all = MaxClasses - 1
	full := Number(nil, keys(0, all))
	if len(full) != all || full["k04094"] != all {
		t.Fatalf("%d numbers given, the last is %d", len(full), full["k04094"])
	}
	// One has gone: its number is all there is.
	next := Number(full, keys(1, all+1))
	if next["k04095"] != full["k00000"] || len(next) != all {
		t.Errorf("the new one has %d, the one that is gone had %d", next["k04095"], full["k00000"])
	}
	// One too many: it is left out, the others keep theirs.
	over := Number(full, keys(0, all+1))
	if _, ok := over["k04095"]; ok || !maps.Equal(over, full) {
		t.Errorf("one too many got %d", over["k04095"])
	}
}

// A host on which containers replace others all day, some at a time: after how
// many others does a number mean something else?
func TestNumberIsReusedLate(t *testing.T) {
	const atOnce = 50
	numbers := map[string]ClassID{}
	lastUse := map[ClassID]int{}
	soonest := MaxClasses
	for round := range 3 * MaxClasses / atOnce {
		living := append([]string{"stays"}, keys(round*atOnce, (round+1)*atOnce)...)
		numbers = Number(numbers, living)
		if numbers["stays"] != 1 {
			t.Fatalf("round %d: who stays has number %d", round, numbers["stays"])
		}
		for i, key := range living[1:] {
			id, now := numbers[key], round*atOnce+i
			if last, ok := lastUse[id]; ok {
				soonest = min(soonest, now-last)
			}
			lastUse[id] = now
		}
	}
	if soonest < MaxClasses-2*atOnce {
		t.Errorf("a number was given anew after %d others", soonest)
	}
}

func TestNumberIsStableAndUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := map[string]ClassID{}
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			living := rapid.SliceOfDistinct(rapid.SampledFrom(keys(0, 12)), rapid.ID[string]).Draw(t, "living")
			next := Number(numbers, living)
			ids := slices.Sorted(maps.Values(next))
			if len(slices.Compact(ids)) != len(next) || slices.Contains(ids, 0) {
				t.Fatalf("numbers %v", next)
			}
			for _, key := range living {
				if next[key] == 0 {
					t.Errorf("%s has no number", key)
				}
			}
			for key, id := range numbers {
				if next[key] != id {
					t.Errorf("%s had %d, has %d", key, id, next[key])
				}
			}
			numbers = next
		}
	})
}
