// SPDX-License-Identifier: Apache-2.0

package control

import (
	"math"
	"testing"
	"time"
)

func TestMonitor(t *testing.T) {
	var m Monitor
	at := time.Unix(1000, 0)
	if got := m.Take(at, 5000, 100); !math.IsNaN(got) {
		t.Errorf("the first reading gives %v", got)
	}
	if got := m.Take(at.Add(2*time.Second), 5000+225_000, 100+25_000); got != mega || m.Last(1) != 0.1*mega || m.Last(2) != 0 {
		t.Errorf("got %v, of the second counter %v", got, m.Last(1))
	}
	if got := m.Take(at.Add(3*time.Second), 10, 26_000); !math.IsNaN(got) || m.Last(1) != 0 {
		t.Errorf("a counter that began anew gives %v", got)
	}
	if got := m.Take(at.Add(4*time.Second), 125_010, 26_000); got != mega {
		t.Errorf("after that: %v", got)
	}
	m.Forget()
	if got := m.Take(at.Add(time.Hour), 1<<40, 1<<40); !math.IsNaN(got) {
		t.Errorf("after Forget: %v", got)
	}
}

func TestMonitorRemembersAMinute(t *testing.T) {
	var m Monitor
	m.Note(math.NaN())
	for i := range 100 {
		m.Note(float64(i))
	}
	if h := m.History(); len(h) != historyLength || h[0] != 40 || h[59] != 99 {
		t.Errorf("remembers %v", h)
	}
}
