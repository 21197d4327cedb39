// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/test/boundtest"
)

func TestParseMatches(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{udp: 5001}", "[{udp: 5001}]"},
		{"udp: 5001, dscp: 46", "[{udp: 5001, dscp: ef}]"},
		{"[{udp: 5002}, {dscp: 34}]", "[{udp: 5002} {dscp: af41}]"},
		{`[{"udp": [5001, "6000-6010"]}]`, "[{udp: [5001, 6000-6010]}]"},
		{"{ tcp : 80 ,\n src: 10.0.0.0/8 }", "[{tcp: 80, src: 10.0.0.0/8}]"},
		{"{src: 2001:db8::/32, dst: ::1}", "[{src: 2001:db8::/32, dst: ::1}]"},
		{"{proto: UDP, sport: 53}", "[{proto: udp, sport: 53}]"},
		{"{proto: 89}", "[{proto: 89}]"},
		{"{mark: 0x50/0xf0, priority: 7}", "[{priority: 7, mark: 0x50/0xf0}]"},
		{"{mark: 5}", "[{mark: 5}]"},
		{"{queue: 3, vlan: 100}", "[{vlan: 100, queue: 3}]"},
		{"preset: VoIP", "[{preset: voip}]"},
		{"[]", "[]"},
	} {
		got, err := ParseMatches(tt.text)
		if err != nil || fmt.Sprint(got) != tt.want {
			t.Errorf("%s: %v, %v; want %s", tt.text, got, err, tt.want)
		}
	}
}

func TestParseMatchesRefuses(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"{udp: 5001-}", `udp "5001-": not a port or a range of ports; write 5060, 5000-5010 or a list of them, 0 to 65535`},
		{"{udp: 5010-5000}", `udp "5010-5000": a range that ends before it begins; write 5000-5010`},
		{"{udp: 70000}", `udp "70000": not a port or a range of ports; write 5060, 5000-5010 or a list of them, 0 to 65535`},
		{"{udp: []}", `udp "[]": an empty list of ports; write 5060, 5000-5010 or a list of them`},
		{"[{udp: 1}, {dscp: 64}]", `match[1].dscp "64": more than the six bits of the field hold; the DSCP of a traffic class byte of 64 is cs2; write a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va, le`},
		{"{port: 5}", `match "port": no such key; known here: preset, proto, tcp, udp, sport, dport, src, dst, dscp, vlan, priority, mark, queue`},
		{"{tcp: 1, udp: 2}", `tcp "": a packet is not both TCP and UDP; write two matches: {tcp: ...}, {udp: ...}`},
		{"{proto: udp, tcp: 2}", `proto "": udp contradicts tcp; leave one of them out`},
		{"{proto: esp, dport: 2}", `proto "": esp has no ports; leave sport and dport out, or write tcp, udp or sctp`},
		{"{src: 10.0.0.1/24}", `src "10.0.0.1/24": bits are set behind the prefix; write 10.0.0.0/24, or the address alone`},
		{"{src: 10.0.0.0/24, dst: ::/0}", `dst "": 10.0.0.0/24 and ::/0 are of two families; write two matches`},
		{"{src: example.org}", `src "example.org": not an address or prefix; write one such as 10.0.0.0/8, 192.0.2.7 or 2001:db8::/32`},
		{"{mark: 0x51/0xf0}", `mark "0x51/0xf0": bits outside of the mask; write 0x50/0xf0`},
		{"{queue: 61440}", `queue "61440": not a queue of Open vSwitch; write a number from 0 to 61439`},
		{"{preset: voice}", `preset "voice": no such preset; known here: voip, video, bulk, dns, web, ssh, ntp, mail, control`},
		{"{preset: voip, udp: 9}", `preset "": says protocol, ports and dscp itself; leave them out, or write the matches without preset voip`},
		{"{}", `match "": states nothing; name what belongs here; the queue without any match takes the rest`},
		{"[5001]", `match[0] "5001": not a match; write it as {udp: 5001}`},
		{"{udp: 1} x", `match "{udp: 1} x": something is left behind the end; write it as [{udp: 5001}, {dscp: ef}]`},
		{"{udp: 1, udp: 2}", `match "{udp: 1, udp: 2}": the key "udp" is there twice; write it as [{udp: 5001}, {dscp: ef}]`},
		{"{udp: 1", `match "{udp: 1": entries without a comma between them, or a mapping without its end, }; write it as [{udp: 5001}, {dscp: ef}]`},
		{"", `match "": a value is missing; write it as [{udp: 5001}, {dscp: ef}]`},
	} {
		got, err := ParseMatches(tt.text)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, error\n     %v\nwant %s", tt.text, got, err, tt.want)
		}
		var mistake *invalid.Error
		if !errors.As(err, &mistake) {
			t.Errorf("%s: %T is no *Error", tt.text, err)
		}
	}
}

// What a tree decoded from YAML or JSON has for values.
func TestParseMatchTakesNumbers(t *testing.T) {
	got, err := ParseMatch(map[string]any{"udp": []any{uint64(5001), "6000-6010", 7.0, json.Number("8")}, "dscp": 34})
	want := Match{UDP: []PortRange{{5001, 5001}, {6000, 6010}, {7, 7}, {8, 8}}, DSCP: Given[uint8](34)}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, value := range []any{1.5, true, nil, map[string]any{}, []any{[]any{1}}} {
		if m, err := ParseMatch(map[string]any{"udp": value}); err == nil {
			t.Errorf("udp: %v is read as %v", value, m)
		}
	}
}

// drawMatch draws from few values, so that matches and packets meet.
func drawMatch(t *rapid.T) Match {
	ports := rapid.Custom(func(t *rapid.T) PortRange {
		low := rapid.Uint16Range(5000, 5020).Draw(t, "low")
		return PortRange{low, low + rapid.Uint16Range(0, 10).Draw(t, "span")}
	})
	some := func(name string) []PortRange { return rapid.SliceOfN(ports, 1, 2).Draw(t, name) }
	for {
		var m Match
		has := rapid.IntRange(1, 1<<10-1).Draw(t, "keys")
		if has&1 != 0 {
			m.Proto = Given(rapid.SampledFrom([]uint8{protoTCP, protoUDP, protoICMP, protoSCTP, protoESP}).Draw(t, "proto"))
		}
		if has&6 == 6 {
			m.UDP = some("udp")
		} else if has&6 == 2 {
			m.TCP = some("tcp")
		}
		if has&24 == 24 {
			m.Sport = some("sport")
		} else if has&24 == 8 {
			m.Dport = some("dport")
		}
		if has&32 != 0 {
			m.Src = netip.MustParsePrefix(rapid.SampledFrom([]string{"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8::7/128"}).Draw(t, "src"))
		}
		if has&64 != 0 {
			m.DSCP = Given(rapid.SampledFrom([]uint8{0, 34, 46}).Draw(t, "dscp"))
		}
		if has&128 != 0 {
			m.VLAN = Given(rapid.Uint16Range(0, 3).Draw(t, "vlan"))
		}
		if has&256 != 0 {
			m.Mark = Given(rapid.SampledFrom([]Bits{{5, ^uint32(0)}, {0x50, 0xf0}, {0, 1}}).Draw(t, "mark"))
		}
		if has&512 != 0 {
			m.Queue = Given(rapid.Uint16Range(0, 3).Draw(t, "queue"))
		}
		if m.Check() == nil {
			return m
		}
	}
}

func TestMatchReadsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMatch(t)
		again, err := ParseMatches(m.String())
		if err != nil || len(again) != 1 || !reflect.DeepEqual(again[0], m) {
			t.Fatalf("%s is read as %v, %v", m, again, err)
		}
		text, err := json.Marshal(m)
		var back Match
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%s as JSON is %s, read as %s, %v", m, text, back, err)
		}
	})
}

func FuzzParseMatches(f *testing.F) {
	for _, seed := range []string{"{udp: 5001}", `[{"tcp": [80, "8000-8099"]}, {preset: dns}]`, "src: ::/0", "[{", "'", "{a: [[["} {
		f.Add(seed)
	}
	boundtest.Seeds[string](f, bound.Label, "[{udp: [", "[{")
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			matches, err := ParseMatches(text)
			var mistake *invalid.Error
			if err != nil && !errors.As(err, &mistake) {
				t.Fatalf("%q: %T is no *Error: %v", text, err, err)
			}
			for _, m := range matches {
				if again, err := ParseMatches(m.String()); err != nil || !reflect.DeepEqual(again, []Match{m}) {
					t.Fatalf("%q is read as %s, which is read as %v, %v", text, m, again, err)
				}
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q: an error of two lines: %v", text, err)
			}
		})
	})
}

// Every preset can be read, fits into a workload beside another, and says nothing
// twice.
func TestPresets(t *testing.T) {
	for _, p := range Presets() {
		rules, err := Compile([][]Match{p.Matches(), nil})
		if err != nil || len(rules.List) == 0 || len(rules.List) > MaxRules/2 || p.Doc == "" {
			t.Errorf("preset %s: %d rules, %v", p.Name, len(rules.List), err)
		}
		for i, rule := range rules.List {
			for _, earlier := range rules.List[:i] {
				if earlier.covers(rule.Condition) {
					t.Errorf("preset %s: %+v says what %+v said", p.Name, rule, earlier)
				}
			}
		}
	}
	voip := Match{Preset: "voip", Src: netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range voip.conditions() {
		if c.Src != voip.Src {
			t.Errorf("%s: %+v lost the prefix", voip, c)
		}
	}
}
