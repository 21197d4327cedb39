// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"net/netip"
	"strings"
	"testing"
)

// zoneOf makes a zone of its prefixes as they are written.
func zoneOf(t *testing.T, name string, egress, ingress uint64, prefixes ...string) Zone {
	t.Helper()
	z := Zone{Name: name, Egress: egress, Ingress: ingress}
	for _, text := range prefixes {
		if err := z.Prefixes.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	return z
}

func TestCheck(t *testing.T) {
	z := func(name string, egress, ingress uint64, prefixes ...string) Zone {
		return zoneOf(t, name, egress, ingress, prefixes...)
	}
	for name, c := range map[string]struct {
		zones []Zone
		want  string // the beginning of the mistake, "" = none
	}{
		"a home":           {[]Zone{z("wan", 95e6, 50e6), z("lan", 0, 0, "connected", "private")}, ""},
		"none":             {nil, ""},
		"two defaults":     {[]Zone{z("wan", 95e6, 0), z("lan", 10e6, 0)}, `lan.prefixes "none": zone wan has no prefixes either`},
		"two without":      {[]Zone{z("wan", 0, 0), z("lan", 0, 0, "private"), z("cdn", 1e6, 0, "192.0.2.0/24")}, `lan.egress "none": zone wan has no capacity of its own either`},
		"no capacity":      {[]Zone{z("wan", 0, 0)}, `wan "none": no zone has a capacity`},
		"the same prefix":  {[]Zone{z("a", 1e6, 0, "10.0.0.0/8"), z("b", 0, 0, "private")}, `b.prefixes "10.0.0.0/8": zone a has it already; take it out`},
		"connected twice":  {[]Zone{z("a", 1e6, 0, "connected"), z("b", 0, 0, "connected")}, `b.prefixes "connected": zone a has it already`},
		"above the device": {[]Zone{z("a", 600e6, 0), z("b", 500e6, 0, "private")}, `b.egress "500mbit": zones have 1100mbit of the device's 1gbit with it; write 400mbit or less`},
		"all of egress":    {[]Zone{z("a", 1e9, 0)}, ""},
		"all of ingress":   {[]Zone{z("a", 0, 100e6)}, `a.ingress "100mbit": zones have 100mbit of the device's 100mbit with it; write 99999999bit or less`},
	} {
		err := Check(c.zones, 1e9, 100e6)
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestAdd(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8":      "",
		"2001:db8::1":     "",
		"privat":          `"privat": not an address or prefix; write a prefix such as 192.0.2.0/24 or 2001:db8::/32, or connected or private`,
		"10.0.0.1/8":      `"10.0.0.1/8": bits are set behind the prefix; write 10.0.0.0/8, or the address alone`,
		"0.0.0.0/0":       `"0.0.0.0/0": is every address; leave prefixes out: a zone without them is all that no other zone has`,
		"::ffff:10.0.0.1": `"::ffff:10.0.0.1": an IPv4 address in IPv6 form; write it as IPv4, such as 10.0.0.1`,
	} {
		var p Prefixes
		got := ""
		if err := p.Add(text); err != nil {
			got = err.Error()
		}
		if got != want || (got == "") != (len(p.List) == 1) {
			t.Errorf("%s: %s and %v, want %s", text, got, p.List, want)
		}
	}
}

func TestAddFile(t *testing.T) {
	var p Prefixes
	if err := p.AddFile("# of the provider\n192.0.2.0/24\n\n2001:db8::/32  # and this\n192.0.2.0/24"); err != nil || len(p.List) != 2 {
		t.Errorf("%v: %v", p.List, err)
	}
	err := p.AddFile("10.0.0.0/8\n10.0.0.0/33\n")
	if err == nil || !strings.HasPrefix(err.Error(), `"10.0.0.0/33": line 2: not an address`) || len(p.List) != 2 {
		t.Errorf("%v: %v", p.List, err)
	}
}

func TestOf(t *testing.T) {
	zones := []Zone{zoneOf(t, "wan", 1, 0), zoneOf(t, "lan", 0, 0, "connected", "private"), zoneOf(t, "cdn", 1, 0, "10.9.0.0/16", "203.0.113.0/24")}
	connected := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.51.100.0/25")}
	for addr, want := range map[string]string{
		"8.8.8.8": "wan", "10.1.1.1": "lan", "10.9.1.1": "cdn", "198.51.100.3": "lan", "198.51.100.200": "wan",
		"203.0.113.9": "cdn", // which is written, and not only connected
		"2001:db8::1": "wan", "fe80::1": "lan", "ff02::fb": "lan",
	} {
		if got := Of(zones, netip.MustParseAddr(addr), connected); got == nil || got.Name != want {
			t.Errorf("%s: %v, want %s", addr, got, want)
		}
	}
	if got := Of(zones[1:], netip.MustParseAddr("8.8.8.8"), connected); got != nil {
		t.Errorf("an address in no zone is in %s", got.Name)
	}
}
