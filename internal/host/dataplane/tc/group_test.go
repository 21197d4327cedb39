// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"reflect"
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// A group has no HTB class, its members have their mins and maxes, and Gaps names the
// missing group. The next process knows the group.
func TestMembersCountForThemselves(t *testing.T) {
	b := newBed(t, 2)
	backend := b.backend()
	match, err := classify.ParseMatches("{udp: 5001}")
	if err != nil {
		t.Fatal(err)
	}
	s := b.state(
		plan.Class{Weight: 1, Min: 30 * mbit, Parent: 3, Discipline: discipline.PQ, Queues: []plan.Queue{{Name: "a", Match: match}, {Name: "b"}}},
		plan.Class{Weight: 2, Max: 10 * mbit, Parent: 3, Discipline: discipline.SFQ},
		plan.Class{Weight: 5, Min: 30 * mbit, Group: true, Discipline: discipline.SFQ},
	)
	s.Ports = s.Ports[:2]
	b.Set(backend, s)
	classes := b.Netns.Run("tc", "class", "show", "dev", "up0")
	if strings.Contains(classes, "77e1:3 ") || !strings.Contains(classes, "77e1:1 ") || !strings.Contains(classes, "ceil 10Mbit") {
		t.Errorf("classes are\n%s", classes)
	}
	for _, again := range []*Backend{backend, b.backend()} {
		b.Set(again, s)
		if now, err := again.State(); err != nil || !reflect.DeepEqual(now, s) {
			t.Errorf("state %+v (%v), want %+v", now, err, s)
		}
		if _, known := again.classes[3]; known {
			t.Error("the group takes part in the division")
		}
	}
	gaps := strings.Join(backend.Gaps(), "\n")
	for _, words := range []string{"Groups are not available", "Disciplines, queues and AQM are not available"} {
		if !strings.Contains(gaps, words) {
			t.Errorf("gaps do not say %q:\n%s", words, gaps)
		}
	}
	s.Classes = s.Classes[:3]
	s.Classes[1].Parent, s.Classes[2].Parent = 0, 0
	b.Set(backend, s)
	if now, err := backend.State(); err != nil || !reflect.DeepEqual(now, s) {
		t.Errorf("without the group: state %+v (%v), want %+v", now, err, s)
	}
}
