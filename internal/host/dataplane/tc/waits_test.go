// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"testing"
	"time"
)

func TestWaits(t *testing.T) {
	const over = 200 * time.Millisecond
	for _, test := range []struct {
		name          string
		waiting, sent uint64 // packets: at the begin, in the interval
		left          uint64 // at the end
		certain       bool
	}{
		{"starved", 10, 0, 10, true},
		{"much less than it wants", 300, 40, 310, true},
		{"a burst that is gone", 90, 90, 0, false},
		{"a burst that is gone, and another one", 90, 90, 90, false},
		{"an AQM may have dropped the rest", 100, 60, 20, false},
		{"idle, then a burst", 0, 30, 60, false},
		{"a window that is always full", 10, 80, 10, false},
	} {
		got := waits{}.next(test.waiting, test.sent, sample{sent: test.sent * 1000, waiting: test.left, over: over})
		want := waits{}
		if test.certain {
			want = waits{over, test.sent * 1000}
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
	}
	if got := (waits{time: over}).next(10, 0, sample{waiting: 10}); got.time != over {
		t.Errorf("without a time between two looks: %v", got.time)
	}
}
