// SPDX-License-Identifier: Apache-2.0

package attempts

import (
	"fmt"
	"testing"
	"time"
)

func TestAttempts(t *testing.T) {
	var r Attempts
	var waits []float64
	now := epoch
	for range 6 {
		if !r.Due(now) {
			t.Fatalf("not due at %v", now)
		}
		r.Failed(now)
		waits = append(waits, r.at.Sub(now).Seconds())
		now = r.at
	}
	if fmt.Sprint(waits) != "[1 2 4 8 8 8]" {
		t.Errorf("waits %v", waits)
	}
	if r.Succeeded(); !r.Due(epoch) {
		t.Error("not due after success")
	}
}

// epoch is when the tests' clocks begin.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
