// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/invalid/invalidtest"
	"weir/internal/core/policy"
	"weir/internal/test/goldentest"
)

const mbit = policy.Rate(1e6)

func floor(name string, min policy.Rate) policy.Floor { return policy.Floor{Name: name, Min: min} }

func TestRefusedNamesTheNumbers(t *testing.T) {
	full := Bound{Capacity: 100 * mbit, Reservable: 1}
	most := Bound{Capacity: 100 * mbit, Reservable: 0.9}
	many := []policy.Floor{floor("a", 5*mbit), floor("b", 10*mbit), floor("c", 0), floor("d", 30*mbit), floor("e", 10*mbit), floor("f", 1*mbit)}
	var out strings.Builder
	for _, tt := range []struct {
		name      string
		admission Bound
		ask       policy.Floor
		held      []policy.Floor
		want      Refused // but for Name, Capacity, Limit and Holders
	}{
		{"alone", full, floor("web", 120*mbit), nil,
			Refused{Asked: 120 * mbit, Reserved: 0, Free: 100 * mbit}},
		{"with one other", full, floor("web", 50*mbit), []policy.Floor{floor("db", 80*mbit)},
			Refused{Asked: 50 * mbit, Reserved: 80 * mbit, Free: 20 * mbit}},
		{"with many others", full, floor("web", 50*mbit), many,
			Refused{Asked: 50 * mbit, Reserved: 56 * mbit, Free: 44 * mbit}},
		{"nothing is free", full, floor("web", 5*mbit), []policy.Floor{floor("db", 80*mbit), floor("cache", 20*mbit)},
			Refused{Asked: 5 * mbit, Reserved: 100 * mbit, Free: 0}},
		{"a part is reservable", most, floor("web", 15*mbit), []policy.Floor{floor("db", 80*mbit)},
			Refused{Asked: 15 * mbit, Reserved: 80 * mbit, Free: 10 * mbit}},
		{"a part is reservable and all would not do", most, floor("web", 50*mbit), []policy.Floor{floor("db", 80*mbit)},
			Refused{Asked: 50 * mbit, Reserved: 80 * mbit, Free: 10 * mbit}},
		{"more is reserved than there is", full, floor("web", 5*mbit), []policy.Floor{floor("db", 180*mbit)},
			Refused{Asked: 5 * mbit, Reserved: 180 * mbit, Free: 0}},
		{"beyond 64 bits", full, floor("web", 5*mbit), []policy.Floor{floor("db", policy.Unlimited), floor("cache", policy.Unlimited)},
			Refused{Asked: 5 * mbit, Reserved: policy.Unlimited, Free: 0}},
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
	goldentest.Check(t, "testdata/admission.txt", out.String())
}

func TestAdmit(t *testing.T) {
	a := Bound{Capacity: 100 * mbit, Reservable: 0.75}
	if a.Limit() != 75*mbit {
		t.Errorf("limit is %s", a.Limit())
	}
	held := []policy.Floor{floor("db", 50*mbit)}
	if err := a.Admit(floor("web", 25*mbit), held); err != nil {
		t.Errorf("what fits exactly is refused: %v", err)
	}
	if err := a.Admit(floor("web", 25*mbit+1), held); err == nil {
		t.Error("a bit too much is admitted")
	}
	if err := a.Admit(floor("web", 0), []policy.Floor{floor("db", 99*mbit)}); err != nil {
		t.Errorf("no min at all is refused: %v", err)
	}
	if err := (Bound{Capacity: mbit}).Admit(floor("web", mbit), nil); err != nil {
		t.Errorf("the zero Reservable is not the whole link: %v", err)
	}
}

func TestAdmitAllTakesWhatFitsAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := Bound{Capacity: policy.Rate(rapid.Uint64Range(uint64(policy.MinRate), uint64(rapid.SampledFrom([]policy.Rate{1e4, 1e6, 1e9, 1e12, policy.MaxRate}).Draw(t, "up to"))).Draw(t, "capacity")), Reservable: rapid.Float64Range(0.01, 1).Draw(t, "reservable")}
		floors := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Floor {
			return policy.Floor{Name: "w", Min: policy.Rate(rapid.Uint64Range(0, uint64(a.Capacity)/3).Draw(t, "min"))}
		}), 0, 8).Draw(t, "floors")
		if err, fits := a.AdmitAll(floors), policy.Sum(floors) <= a.Limit(); (err == nil) != fits {
			t.Errorf("mins of %s on %s: %v", policy.Sum(floors), a.Limit(), err)
		}
		if a.Limit() > a.Capacity {
			t.Errorf("limit %s of %s", a.Limit(), a.Capacity)
		}
	})
}

func TestGroupHoldsItsMembers(t *testing.T) {
	members := []policy.Floor{floor("cam", 5e6), floor("idle", 0), floor("web", 20e6)}
	for _, tt := range []struct {
		check func(policy.Rate, []policy.Floor) error
		ask   policy.Rate
		want  string
	}{
		{GroupMin, 0, ""}, {GroupMax, 0, ""}, {GroupMin, 25e6, ""}, {GroupMax, 25e6, ""},
		{GroupMin, 10e6, `min "10mbit": the mins of its members add up to 25 Mbit/s, 15 Mbit/s more; write 25mbit or more, do without a min of the group's own, or lower the min of web (20 Mbit/s) or cam (5 Mbit/s)`},
		{GroupMax, 24e6, `max "24mbit": the mins of its members add up to 25 Mbit/s, 1 Mbit/s more; write 25mbit or more, or lower the min of web (20 Mbit/s) or cam (5 Mbit/s)`},
	} {
		if got := invalidtest.Text(tt.check(tt.ask, members)); got != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.ask, got, tt.want)
		}
	}
	room := Bound{Capacity: 30e6, Group: "tenant", Bound: "min"}
	const want = "min of new: asked 10 Mbit/s, reserved 25 Mbit/s of the min of group tenant, 30 Mbit/s, free 5 Mbit/s; ask for 5mbit or less, lower the min of web (20 Mbit/s) or cam (5 Mbit/s), or raise the min of group tenant"
	if err := room.Admit(floor("new", 10e6), members); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestRefusedReservation: the numbers are those of the wire, the remedy is one of
// payload.
func TestRefusedReservation(t *testing.T) {
	r := &Refused{Name: "cam", Asked: policy.WireOf(40*mbit, 0), Reserved: 70 * mbit, Free: 30 * mbit, Capacity: 100 * mbit,
		Limit: 100 * mbit, Holders: []policy.Floor{floor("web", 70*mbit)}, Goodput: 40 * mbit}
	want := "reserve of cam: asked 41.8 Mbit/s (40 Mbit/s of payload), reserved 70 Mbit/s of 100 Mbit/s, free 30 Mbit/s; " +
		"ask for 28.692206mbit or less, or lower the min of web (70 Mbit/s)"
	if got := r.Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
