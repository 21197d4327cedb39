// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestRefusedNamesTheNumbers(t *testing.T) {
	full := Admission{Capacity: 100 * mbit, Reservable: 1}
	most := Admission{Capacity: 100 * mbit, Reservable: 0.9}
	many := []Floor{{"a", 5 * mbit}, {"b", 10 * mbit}, {"c", 0}, {"d", 30 * mbit}, {"e", 10 * mbit}, {"f", 1 * mbit}}
	var out strings.Builder
	for _, tt := range []struct {
		name      string
		admission Admission
		ask       Floor
		held      []Floor
		want      Refused // but for Name, Capacity, Limit and Holders
	}{
		{"alone", full, Floor{"web", 120 * mbit}, nil,
			Refused{Asked: 120 * mbit, Reserved: 0, Free: 100 * mbit}},
		{"with one other", full, Floor{"web", 50 * mbit}, []Floor{{"db", 80 * mbit}},
			Refused{Asked: 50 * mbit, Reserved: 80 * mbit, Free: 20 * mbit}},
		{"with many others", full, Floor{"web", 50 * mbit}, many,
			Refused{Asked: 50 * mbit, Reserved: 56 * mbit, Free: 44 * mbit}},
		{"nothing is free", full, Floor{"web", 5 * mbit}, []Floor{{"db", 80 * mbit}, {"cache", 20 * mbit}},
			Refused{Asked: 5 * mbit, Reserved: 100 * mbit, Free: 0}},
		{"a part is reservable", most, Floor{"web", 15 * mbit}, []Floor{{"db", 80 * mbit}},
			Refused{Asked: 15 * mbit, Reserved: 80 * mbit, Free: 10 * mbit}},
		{"a part is reservable and all would not do", most, Floor{"web", 50 * mbit}, []Floor{{"db", 80 * mbit}},
			Refused{Asked: 50 * mbit, Reserved: 80 * mbit, Free: 10 * mbit}},
		{"more is reserved than there is", full, Floor{"web", 5 * mbit}, []Floor{{"db", 180 * mbit}},
			Refused{Asked: 5 * mbit, Reserved: 180 * mbit, Free: 0}},
		{"beyond 64 bits", full, Floor{"web", 5 * mbit}, []Floor{{"db", Unlimited}, {"cache", Unlimited}},
			Refused{Asked: 5 * mbit, Reserved: Unlimited, Free: 0}},
	} {
		err := tt.admission.Admit(tt.ask, tt.held)
		var r *Refused
		if !errors.As(err, &r) {
			t.Errorf("%s: error is %v, want a *Refused", tt.name, err)
			continue
		}
		if r.Asked != tt.want.Asked || r.Reserved != tt.want.Reserved || r.Free != tt.want.Free || r.Capacity != 100*mbit {
			t.Errorf("%s: refused with %+v, want %+v", tt.name, r, tt.want)
		}
		fmt.Fprintf(&out, "%s:\n    %v\n", tt.name, r)
	}
	golden(t, "admission.txt", out.String())
}

func TestAdmit(t *testing.T) {
	a := Admission{Capacity: 100 * mbit, Reservable: 0.75}
	if a.Limit() != 75*mbit {
		t.Errorf("limit is %s", a.Limit())
	}
	held := []Floor{{"db", 50 * mbit}}
	if err := a.Admit(Floor{"web", 25 * mbit}, held); err != nil {
		t.Errorf("what fits exactly is refused: %v", err)
	}
	if err := a.Admit(Floor{"web", 25*mbit + 1}, held); err == nil {
		t.Error("a bit too much is admitted")
	}
	if err := a.Admit(Floor{"web", 0}, []Floor{{"db", 99 * mbit}}); err != nil {
		t.Errorf("no min at all is refused: %v", err)
	}
	if err := (Admission{Capacity: mbit}).Admit(Floor{"web", mbit}, nil); err != nil {
		t.Errorf("the zero Reservable is not the whole link: %v", err)
	}
}

func TestAdmitAllTakesWhatFitsAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Admission{Capacity: anyRate(t), Reservable: rapid.Float64Range(0.01, 1).Draw(t, "reservable")}
		floors := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Floor {
			return Floor{Name: "w", Min: Rate(rapid.Uint64Range(0, uint64(a.Capacity)/3).Draw(t, "min"))}
		}), 0, 8).Draw(t, "floors")
		if err, fits := a.AdmitAll(floors), Sum(floors) <= a.Limit(); (err == nil) != fits {
			t.Errorf("mins of %s on %s: %v", Sum(floors), a.Limit(), err)
		}
		if a.Limit() > a.Capacity {
			t.Errorf("limit %s of %s", a.Limit(), a.Capacity)
		}
	})
}
