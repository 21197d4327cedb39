// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"net/netip"
	"testing"
)

func TestSplitEnd(t *testing.T) {
	for text, want := range map[string]struct {
		addr string
		port uint16
	}{
		"10.0.0.2:5060": {"10.0.0.2", 5060}, "10.0.0.2": {"10.0.0.2", 0}, "10.0.0.2:": {"10.0.0.2", 0}, ":5060": {"", 5060},
		"[2001:db8::1]:443": {"2001:db8::1", 443}, "2001:db8::1": {"2001:db8::1", 0}, "[2001:db8::1]": {"2001:db8::1", 0}, ":": {"", 0},
	} {
		if addr, port, err := splitEnd("tcp", text); err != nil || addr != want.addr || port != want.port {
			t.Errorf("%q is %q, %d, %v", text, addr, port, err)
		}
	}
	for _, text := range []string{"", "x", "x:1", "1.2.3.4:x", "1.2.3.4:65536", "1.2.3.4:-1", "5060"} {
		if addr, port, err := splitEnd("tcp", text); err == nil {
			t.Errorf("%q is taken as %q, %d", text, addr, port)
		}
	}
}

func FuzzSplitEnd(f *testing.F) {
	for _, seed := range []string{"10.0.0.2:5060", "[::1]:1", ":1", "", "[]:"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		addr, _, err := splitEnd("tcp", text)
		if err != nil || addr == "" {
			return
		}
		if _, err := netip.ParseAddr(addr); err != nil {
			t.Errorf("%q: address %q", text, addr)
		}
	})
}
