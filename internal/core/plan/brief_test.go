// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A person is told once what becomes of a workload, though its min is given up and
// taken again on the way.
func TestBrief(t *testing.T) {
	for _, test := range []struct{ name, have, want, told string }{
		{"joins a group", "link eth0 100mbit\nclass 0 host\nclass 1 web min=20mbit\ngroup 2 office min=50mbit",
			"link eth0 100mbit\nclass 0 host\nclass 1 web min=20mbit parent=2\ngroup 2 office min=50mbit",
			"web: group none -> office"},
		{"joins with less", "link eth0 100mbit\nclass 0 host\nclass 1 web min=30mbit\ngroup 2 office min=50mbit",
			"link eth0 100mbit\nclass 0 host\nclass 1 web min=20mbit parent=2\ngroup 2 office min=50mbit",
			"web: min 30 Mbit/s -> 20 Mbit/s, group none -> office"},
		{"renamed", "link eth0 100mbit\nclass 0 host\nclass 1 web min=20mbit\nport veth1 11 class=1",
			"link eth0 100mbit\nclass 0 host\nclass 2 shop min=20mbit\nport veth1 11 class=2",
			"add shop: weight 1, min 20 Mbit/s\ninterface veth1: web -> shop\nremove web"},
	} {
		t.Run(test.name, func(t *testing.T) {
			have, want := parseState(t, test.have), parseState(t, test.want)
			var lines []string
			for _, c := range Brief(Diff(have, want), have, want) {
				lines = append(lines, c.String())
			}
			if got := strings.Join(lines, "\n"); got != test.told {
				t.Errorf("told\n%s\nwant\n%s", got, test.told)
			}
		})
	}
}

// Whatever changes, each class is told of at most once, from what it was to what it is.
func TestBriefTellsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		have, want := anyState(t, 6), anyState(t, 6)
		told := map[string]bool{}
		for _, c := range Brief(Diff(have, want), have, want) {
			if c.Op != SetClass {
				continue
			}
			was, _ := have.Class(c.OldClass.ID)
			is, _ := want.Class(c.NewClass.ID)
			id := fmt.Sprint(c.NewClass.ID)
			if told[id] || !reflect.DeepEqual(was, *c.OldClass) || !reflect.DeepEqual(is, *c.NewClass) {
				t.Errorf("%s: from %+v to %+v", c, *c.OldClass, *c.NewClass)
			}
			told[id] = true
		}
		for _, is := range want.Classes {
			was, there := have.Class(is.ID)
			stays := there && was.Group == is.Group && !slices.ContainsFunc(Diff(have, want), func(c Edit) bool { return c.Op == RemoveClass && c.OldClass.ID == is.ID })
			if differs := !was.Equal(is); stays && differs != told[fmt.Sprint(is.ID)] {
				t.Errorf("%+v to %+v is told: %t", was, is, !differs)
			}
		}
	})
}
