// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"weir/internal/api"
)

func frame(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A datagram from 10.5.0.10:4660 to 203.0.113.1:40009, and one behind a VXLAN header.
const (
	ethernet = "020000000001020000000002" + "0800"
	datagram = "45000020" + "0000" + "4000" + "4011" + "0000" + "0a05000a" + "cb007101" + "1234" + "9c49" + "000c" + "0000" + "77656972"
	tunnel   = "4500005000000000401100000a0000010a000002" + "d903" + "12b5" + "003c0000" + "0800000000000700"
)

func TestTowardAndFrom(t *testing.T) {
	to := netip.MustParseAddrPort("203.0.113.1:40009")
	plain, inTunnel := frame(t, ethernet+datagram), frame(t, ethernet+tunnel+ethernet+datagram)
	for name, f := range map[string][]byte{"plain": plain, "in a tunnel": inTunnel} {
		if !toward(f, to) || from(f, to) || toward(f, netip.MustParseAddrPort("203.0.113.1:40010")) || toward(f[:len(f)-9], to) {
			t.Errorf("%s: not told by its address and port", name)
		}
	}
	back := answer(plain)
	if back == nil || !from(back, to) || toward(back, to) || !toward(back, netip.MustParseAddrPort("10.5.0.10:4660")) {
		t.Errorf("answer %x", back)
	}
	if got := hex.EncodeToString(back[:12]); got != "020000000002020000000001" {
		t.Errorf("its Ethernet addresses are %s", got)
	}
	if s := fold(sum(sum(17+12, back[26:34]), back[34:])); s != 0xffff {
		t.Errorf("its checksum is wrong: %#x", s)
	}
	for name, f := range map[string][]byte{"empty": nil, "ARP": frame(t, "0200000000010200000000020806"), "cut off": plain[:30],
		"ICMP": frame(t, ethernet+"4500001c000000004001000"+"00a05000acb0071010800000000000000")} {
		if a := answer(f); a != nil {
			t.Errorf("%s is answered: %x", name, a)
		}
	}
}

func TestAnswerRefusesConnections(t *testing.T) {
	syn := frame(t, ethernet+"4500003c00004000400600000a05000acb007101"+"12349c49"+"00000001"+"00000000"+"a002ffff00000000"+"020405b40402080a000000010000000001030307")
	a := answer(syn)
	if len(a) != 54 || a[47] != 0x14 || a[45] != 2 {
		t.Fatalf("answer %x", a)
	}
	if fold(sum(0, a[14:34])) != 0xffff || fold(sum(sum(6+20, a[26:34]), a[34:])) != 0xffff {
		t.Errorf("its checksums are wrong: %x", a)
	}
}

func TestJudge(t *testing.T) {
	bridged := api.Workload{NotSteered: []api.NotSteered{{Reason: "bridge", Remedy: "port"}}}
	inward := api.Workload{NotSteered: []api.NotSteered{{Part: "ingress", Reason: "past", Remedy: "route"}}}
	for _, c := range []struct {
		name string
		w    api.Workload
		l    Line
		down bool
		want string
	}{
		{"all counted", api.Workload{}, Line{Sent: 40, Link: 40, Counted: 40}, false, OK},
		{"a peer took connections", api.Workload{}, Line{Sent: 20, Link: 60, Counted: 20}, false, OK},
		{"left uncounted", api.Workload{}, Line{Sent: 40, Link: 40}, false, NotSteered},
		{"an encrypted tunnel", api.Workload{}, Line{Sent: 40, Counted: 40}, false, OK},
		{"elsewhere", api.Workload{}, Line{Sent: 40}, false, NoPath},
		{"past a bridge", bridged, Line{Sent: 40}, false, NotSteered},
		{"only ingress is past", inward, Line{Sent: 40}, false, NoPath},
		{"half lost", api.Workload{}, Line{Sent: 40, Link: 20, Counted: 20}, false, NotProved},
		{"came in and counted", inward, Line{Sent: 40, Link: 40, Counted: 40}, true, OK},
		{"came in uncounted", inward, Line{Sent: 40, Link: 40}, true, NotSteered},
		{"did not come in", api.Workload{}, Line{Sent: 40}, true, NotProved},
		{"did not come in, as the agent says", inward, Line{Sent: 40}, true, NotSteered},
	} {
		tr := trial{workload: c.w}
		if c.down {
			tr.judgeDown(&c.l)
		} else {
			tr.judgeUp(&c.l, "eth0")
		}
		if c.l.Result != c.want {
			t.Errorf("%s: %s (%s), want %s", c.name, c.l.Result, c.l.Why, c.want)
		}
	}
}
