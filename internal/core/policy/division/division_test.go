// SPDX-License-Identifier: Apache-2.0

package division

import (
	"errors"
	"testing"

	"weir/internal/core/invalid"
)

// TestOf: the README's example, and what is refused.
func TestOf(t *testing.T) {
	divide := func(capacity string, workloads ...string) (Division, error) {
		return Of(capacity, workloads)
	}
	d, err := divide("100mbit", "a,weight=1,min=30mbit", "b,weight=2", "c,weight=3,max=15%", "d,weight=9,demand=none")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Share{{"a", 30e6, "min"}, {"b", 55e6, "share"}, {"c", 15e6, "max"}, {"d", 0, "idle"}} {
		if d.Shares[i] != want {
			t.Errorf("share %d is %+v, want %+v", i, d.Shares[i], want)
		}
	}
	if d.ReservedBps != 30e6 || d.LevelBps != 27.5e6 || d.Refused != "" {
		t.Errorf("%+v", d)
	}
	if d, err := divide("100mbit", "a,min=60mbit", "b,min=50mbit"); err != nil || d.Refused == "" || d.ReservedBps != 110e6 {
		t.Errorf("mins that do not fit: %v, %+v", err, d)
	}
	for _, c := range [][]string{
		{"lots", "a"}, {"0", "a"}, {"100mbit", "a,wight=1"}, {"100mbit", "a,weight=0"}, {"100mbit", "a,min=20mbit,max=10mbit"}, {"100mbit", "a,demand=x"},
	} {
		_, err := divide(c[0], c[1:]...)
		if said, ok := errors.AsType[*invalid.Error](err); !ok || said.Field == "" || said.Remedy == "" {
			t.Errorf("%q: %v", c, err)
		}
	}
}
