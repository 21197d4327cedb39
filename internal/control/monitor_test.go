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
	if got := m.Take(at, 5000); !math.IsNaN(got) {
		t.Errorf("the first reading gives %v", got)
	}
	if got := m.Take(at.Add(2*time.Second), 5000+250_000); got != mega {
		t.Errorf("got %v", got)
	}
	if got := m.Take(at.Add(3*time.Second), 10); !math.IsNaN(got) {
		t.Errorf("a counter that began anew gives %v", got)
	}
	if got := m.Take(at.Add(4*time.Second), 125_010); got != mega {
		t.Errorf("after that: %v", got)
	}
	for i := range 100 {
		m.Take(at.Add(time.Duration(5+i)*time.Second), uint64(125_010+i*1000))
	}
	if n := len(m.History()); n != historyLength {
		t.Errorf("remembers %d samples", n)
	}
	m.Forget()
	if got := m.Take(at.Add(time.Hour), 1<<40); !math.IsNaN(got) {
		t.Errorf("after Forget: %v", got)
	}
}
