// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"reflect"
	"slices"
	"testing"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/discover"
)

// remembering is a world that remembers everything that there is to remember of the keys.
func remembering(keys ...string) World {
	w := World{Set: map[string]policy.Change{}, Number: map[string]plan.ClassID{}, Grants: map[string][]AdmittedMin{},
		Tuned: map[string]Tuned{}, Accepted: map[string][]string{}}
	for i, key := range keys {
		w.Found = append(w.Found, discover.Workload{Key: key, Name: key})
		w.Set[key] = policy.MustChange("weight", "3")
		w.Number[key] = plan.ClassID(i + 1)
		w.Grants["eth0"] = append(w.Grants["eth0"], AdmittedMin{Key: key, Min: 1e6})
		w.Tuned[key] = Tuned{Frozen: true}
		w.Accepted[key] = []string{"group"}
	}
	return w
}

// A renamed workload keeps everything that was remembered of it, and leaves nothing to the
// next one with its former name.
func TestRename(t *testing.T) {
	w := remembering("docker:a", "docker:b")
	w.Rename(map[string]string{"docker:a": "docker:c"})
	want := remembering("docker:c", "docker:b")
	want.Found, w.Found = nil, nil // found anew
	if !reflect.DeepEqual(w, want) {
		t.Errorf("got\n%+v\nwant\n%+v", w, want)
	}
}

// Of two workloads that exchange their names each keeps what is its own.
func TestRenameInACircle(t *testing.T) {
	w := World{Number: map[string]plan.ClassID{"docker:a": 1, "docker:b": 2, "docker:c": 3}}
	w.Rename(map[string]string{"docker:a": "docker:b", "docker:b": "docker:c", "docker:c": "docker:a"})
	if want := map[string]plan.ClassID{"docker:b": 1, "docker:c": 2, "docker:a": 3}; !reflect.DeepEqual(w.Number, want) {
		t.Errorf("numbers %v, want %v", w.Number, want)
	}
}

// Of a detached workload only its number and its place are remembered, until another needs them.
func TestForget(t *testing.T) {
	w := remembering("netns:a", "netns:b")
	w.forget("netns:a")
	if len(w.Found) != 1 || len(w.Set) != 1 || len(w.Tuned) != 1 || len(w.Accepted) != 1 || len(w.Number) != 2 {
		t.Errorf("%+v", w)
	}
}

// A clone shares nothing that is changed in place.
func TestClone(t *testing.T) {
	w := remembering("netns:a", "netns:b")
	w.Attached = []config.Attachment{{Name: "a"}, {Name: "b"}}
	w.Groups = map[string]policy.Change{"office": policy.MustChange("weight", "2")}
	next := w.Clone()
	next.forget("netns:a")
	next.Rename(map[string]string{"netns:b": "netns:c"})
	next.Attached = slices.Delete(next.Attached, 0, 1)
	delete(next.Groups, "office")
	want := remembering("netns:a", "netns:b")
	want.Attached = []config.Attachment{{Name: "a"}, {Name: "b"}}
	want.Groups = map[string]policy.Change{"office": policy.MustChange("weight", "2")}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("the original has changed:\n%+v\nwas\n%+v", w, want)
	}
}
