// SPDX-License-Identifier: Apache-2.0

package framing

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Framing{
		"0":                        {},
		"none":                     {},
		"24":                       {Overhead: 24},
		"-4":                       {Overhead: -4},
		"ethernet":                 {Overhead: 38, FromIP: true, Least: 84},
		"ethernet ether-vlan":      {Overhead: 42, FromIP: true, Least: 84},
		"ether-vlan ether-vlan 10": {Overhead: 18},
		"atm 32":                   {Overhead: 32, FromIP: true, Cells: ATM},
		"32 atm":                   {Overhead: 32, FromIP: true, Cells: ATM},
		"bridged-llcsnap":          {Overhead: 32, FromIP: true, Cells: ATM},
		"22 ptm mpu 64":            {Overhead: 22, FromIP: true, Least: 64, Cells: PTM},
		"pppoe-ptm noatm":          {Overhead: 30, FromIP: true},
		"atm ethernet":             {Overhead: 38, FromIP: true, Least: 84, Cells: ATM},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                                      "has no overhead",
		"atm":                                   "has no overhead",
		"257":                                   "from -64 to 256",
		"1.5":                                   "is no overhead",
		"ethernet 4":                            "two overheads",
		"dsl":                                   "pppoe-llcsnap",
		"24 mpu":                                "is no overhead",
		"24 mpu 900":                            "from 0 to 256",
		"256 ether-vlan":                        "more than 256",
		"1 " + strings.Repeat("ether-vlan ", 3): "two tags",
	} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %+v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// TestOn: lengths by hand from tc-cake(8) and its source.
func TestOn(t *testing.T) {
	for _, c := range []struct {
		framing        string
		length, header int
		want           int
	}{
		{"none", 1514, Ethernet, 1514},
		{"24", 1514, Ethernet, 1538},
		{"-64", 42, Ethernet, 1},
		{"ethernet", 1514, Ethernet, 1538},
		{"ethernet", 43, Ethernet, 84}, // a datagram of one byte
		{"ethernet", 29, 0, 84},
		{"docsis", 60, Ethernet, 64},
		{"pppoe-ptm", 128, 0, 161}, // of tun or ppp: 158 and 3 times 65/64
		{"pppoe-ptm", 142, Ethernet, 161},
		{"atm 40", 142, Ethernet, 212}, // 168 bytes: 4 cells
		{"pppoe-llcsnap", 98, Ethernet, 159},
		{"ipoa-vcmux", 54, Ethernet, 53}, // an acknowledgement in one cell
	} {
		f, err := Parse(c.framing)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.On(c.length, c.header); got != c.want {
			t.Errorf("%s: %d bytes, %d of them before IP, take %d, want %d", c.framing, c.length, c.header, got, c.want)
		}
	}
}
