// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// TestLengths: each pause is between half of its length and all of it, and no pause is
// longer than the longest, however many there were.
func TestLengths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(int64(time.Microsecond), int64(time.Minute)).Draw(t, "first"))
		longest := first * time.Duration(rapid.Int64Range(1, 1000).Draw(t, "times"))
		p := New(first, longest)
		for range 2 {
			for i, whole := 0, first; i < 100; i, whole = i+1, min(2*whole, longest) {
				// New rounds 3/4 of the first down to a nanosecond, and that is
				// doubled too.
				if got := p.Next(); got < whole/2-whole/first-2 || got > whole {
					t.Fatalf("pause %d of %v to %v lasts %v, want %v to %v", i, first, longest, got, whole/2, whole)
				}
			}
			p.Reset()
		}
	})
}

// TestPausesDiffer: two that fail together do not try again together.
func TestPausesDiffer(t *testing.T) {
	p, q := New(time.Second, time.Minute), New(time.Second, time.Minute)
	for range 10 {
		if p.Next() != q.Next() {
			return
		}
	}
	t.Error("ten pauses of two are the same")
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begun := New(time.Second, time.Second), time.Now()
		if !p.Wait(t.Context()) {
			t.Error("a pause was not waited for")
		}
		if took := time.Since(begun); took < time.Second/2 || took > time.Second {
			t.Errorf("a pause of up to 1 s lasted %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		begun = time.Now()
		if p.Wait(ctx) || time.Since(begun) != 100*time.Millisecond {
			t.Errorf("a pause went on for %v after its context had ended", time.Since(begun)-100*time.Millisecond)
		}
		if p.Wait(ctx) {
			t.Error("a pause was waited for although its context had ended before")
		}
	})
}
