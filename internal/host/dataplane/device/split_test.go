// SPDX-License-Identifier: Apache-2.0

package device

import (
	"testing"

	"weir/internal/core/policy"
	"weir/internal/host/dataplane/device/netnstest"
)

func TestSplitOver(t *testing.T) {
	for _, tt := range []struct {
		capacity policy.Rate
		want     uint32
	}{
		{0, 0}, {1e6, 3349}, {20e6, 3349}, {100e6, 15000}, {400e6, 60000}, {437e6, 0}, {10e9, 0},
	} {
		if got := SplitOver(tt.capacity); got != tt.want {
			t.Errorf("SplitOver(%d) = %d, want %d", tt.capacity, got, tt.want)
		}
	}
}

// The devices are made once, made anew when another program has changed them, and removed.
func TestSplitter(t *testing.T) {
	host := netnstest.Enter(t)
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	before := host.Run("ip", "-o", "link")
	made := func() Splitter {
		t.Helper()
		s, err := c.EnsureSplitter()
		if err != nil || s == (Splitter{}) {
			t.Fatalf("%+v, %v", s, err)
		}
		return s
	}
	first := made()
	if again := made(); again != first {
		t.Errorf("%+v, and then %+v", first, again)
	}
	for _, change := range [][]string{
		{"del", splitIn},
		{"del", splitEnd},
		{"set", splitIn, "down"},
		{"set", splitEnd, "down"},
		{"set", splitIn, "gso_max_size", "65536"},
		{"set", splitOut, "alias", "mine"},
	} {
		host.Run(append([]string{"ip", "link"}, change...)...)
		if s, err := c.Splitter(); err != nil || s != (Splitter{}) {
			t.Errorf("%v: %+v, %v; want none", change, s, err)
		}
		now := made()
		if now == first {
			t.Errorf("%v: the same devices", change)
		}
		first = now
	}
	for range 2 {
		if err := c.DeleteSplitter(); err != nil {
			t.Error(err)
		}
	}
	if after := host.Run("ip", "-o", "link"); after != before {
		t.Errorf("left:\n%s\nbefore:\n%s", after, before)
	}
}
