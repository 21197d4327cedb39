// SPDX-License-Identifier: Apache-2.0

package human

import (
	"testing"
	"time"
)

func TestFormats(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{Size(0), "0 B"}, {Size(999), "999 B"}, {Size(1000), "1.00 kB"}, {Size(18168), "18.2 kB"},
		{Size(999_499), "999 kB"}, {Size(999_999), "1.00 MB"}, {Size(6_250_000), "6.25 MB"}, {Size(1_234_567_890_123), "1.23 TB"},
		{Age(0), "0 s"}, {Age(-time.Minute), "0 s"}, {Age(59 * time.Second), "59 s"}, {Age(61 * time.Second), "1 min 1 s"},
		{Age(3*time.Hour + 12*time.Minute), "3 h 12 min"}, {Age(50 * time.Hour), "2 d 2 h"},
		{Limit(0), "-"}, {Limit(20e6), "20 Mbit/s"}, {Percent(0.333), "33 %"},
		{Written(""), "none"}, {Written("25%"), "25 %"}, {Written("20mbit"), "20 Mbit/s"}, {Written("odd"), "odd"},
		{Drops(nil, 0), "none"},
		{Drops(map[string]uint64{"b": 1, "a": 1, "c": 5, "d": 0}, 0), "7 packets (c 5, a 1, b 1)"},
		{Drops(map[string]uint64{"a": 3}, 1.25), "3 packets (a 3), 1.25 a second now"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
