// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"math"
	"testing"
)

func TestParseStat(t *testing.T) {
	tests := []struct {
		name, text  string
		idle, total float64
		ok          bool
	}{
		{"idle and iowait are idle, guests are within user",
			"cpu  100 10 50 800 40 1 2 3 77 8\ncpu0 1 2 3\n", 840, 1006, true},
		{"an old kernel with fewer columns", "cpu  100 10 50 800 40\n", 840, 1000, true},
		{"not the file", "MemTotal: 5\n", 0, 0, false},
		{"no number", "cpu  a b c d e f\n", 0, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat(tt.text)
			if (err == nil) != tt.ok || got != (CPUSample{Idle: tt.idle, Total: tt.total}) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestBusy(t *testing.T) {
	tests := []struct {
		name     string
		from, to CPUSample
		want     float64
	}{
		{"a quarter", CPUSample{100, 1000}, CPUSample{850, 2000}, 0.25},
		{"the loop was faster than calibrated", CPUSample{0, 0}, CPUSample{1010, 1000}, 0},
		{"nothing passed", CPUSample{1, 1}, CPUSample{1, 1}, 0},
	}
	for _, tt := range tests {
		if got := Busy(tt.from, tt.to); math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestStatReadsThisMachine(t *testing.T) {
	s, err := Stat{}.Sample()
	if err != nil || s.Total <= 0 || s.Idle > s.Total {
		t.Errorf("got %+v, %v", s, err)
	}
}
