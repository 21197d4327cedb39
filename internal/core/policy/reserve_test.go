// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

func TestWireOf(t *testing.T) {
	for _, tt := range []struct {
		goodput  Rate
		overhead int
		want     Rate
	}{
		{0, 0, 0},
		{1448, 0, 1514},
		{10 * mbit, 0, 10_455_802}, // 10e6 * 1514/1448 = 10455801.1
		{10 * mbit, 24, 10_621_547},
		{10 * mbit, -1000, 10 * mbit}, // payload never takes less than itself
		{Unlimited, 0, Unlimited},
	} {
		if got := WireOf(tt.goodput, tt.overhead); got != tt.want {
			t.Errorf("%d with %d: %d, want %d", tt.goodput, tt.overhead, got, tt.want)
		}
	}
}

func TestGoodputOfIsTheOpposite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		goodput := Rate(rapid.Uint64Range(0, uint64(MaxRate)).Draw(t, "goodput"))
		overhead := rapid.IntRange(-64, 256).Draw(t, "overhead")
		if got := GoodputOf(WireOf(goodput, overhead), overhead); got != goodput {
			t.Fatalf("%d bit/s of payload come back as %d", goodput, got)
		}
	})
}

func reserve(r Rate) Policy { return Policy{Weight: 1, Reserve: Amount{Rate: r}} }

// TestReservationIsAMin: what a reservation takes on the wire is guaranteed.
func TestReservationIsAMin(t *testing.T) {
	queues := Policy{Weight: 1, Discipline: discipline.CBWFQ, Queues: []Queue{
		{Name: "a", Reserve: Amount{Rate: 4 * mbit}, Match: []classify.Match{{UDP: []classify.PortRange{{First: 1, Last: 1}}}}},
		{Name: "b", Reserve: Amount{Percent: 6}},
	}}
	larger := reserve(5 * mbit)
	larger.Min = Amount{Rate: 3 * mbit}
	for _, tt := range []struct {
		name string
		p    Policy
		want Rate
	}{
		{"of the workload", reserve(10 * mbit), 10_455_802},
		{"of its queues together", queues, 10_455_802},
		{"larger than the min", larger, WireOf(5*mbit, 0)},
	} {
		got, err := tt.p.Sharer(100 * mbit)
		if err != nil || got.Min != tt.want || got.Max != 0 {
			t.Errorf("%s: %+v, %v; want a min of %d", tt.name, got, err, tt.want)
		}
	}
}

func TestReservationsRefused(t *testing.T) {
	bounded, floored, queued, strict, nested, deep := reserve(10*mbit), reserve(10*mbit), reserve(2*mbit), reserve(2*mbit), Default(), Default()
	bounded.Max = Amount{Rate: 10 * mbit}
	floored.Min = Amount{Rate: 20 * mbit}
	queued.Discipline, queued.Queues = discipline.PQ, []Queue{{Name: "a", Reserve: Amount{Rate: 3 * mbit}}}
	strict.Discipline, strict.Queues = discipline.LLQ, []Queue{{Name: "a", Rate: Amount{Rate: mbit}, Reserve: Amount{Rate: mbit}}}
	nested.Ingress = &Policy{Weight: 1, Min: Amount{Rate: 5 * mbit}, Max: Amount{Rate: mbit}}
	deep.Ingress = &Policy{Weight: 1, Group: "a"}
	over := queued
	over.Reserve, over.Max = Amount{}, Amount{Rate: 3 * mbit}
	sum := Policy{Weight: 1, Min: Amount{Rate: 4 * mbit}, Discipline: discipline.CBWFQ, Queues: []Queue{{Name: "a", Reserve: Amount{Rate: 4 * mbit}}}}
	var out strings.Builder
	for _, p := range []Policy{reserve(500), bounded, floored, queued, strict, nested, deep, over, sum} {
		_, err := p.Sharer(100 * mbit)
		var e *invalid.Error
		if !errors.As(err, &e) || e.Field == "" || e.Remedy == "" {
			t.Errorf("%+v: %v; want an *Error with field and remedy", p, err)
			continue
		}
		fmt.Fprintln(&out, e)
	}
	golden(t, "reserve.txt", out.String())
}

func TestIn(t *testing.T) {
	p := Policy{Weight: 3, Ingress: &Policy{Weight: 7}}
	if got := p.In(Egress); got.Weight != 3 || got.Ingress != nil {
		t.Errorf("egress: %+v", got)
	}
	if got := p.In(Ingress); got.Weight != 7 {
		t.Errorf("ingress: %+v", got)
	}
	if got := Default().In(Ingress); got.Weight != 1 {
		t.Errorf("ingress of which nobody spoke: %+v", got)
	}
}
