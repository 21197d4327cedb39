// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weir/internal/core/bound"
	"weir/internal/core/plan"
	"weir/internal/test/boundtest"
)

func TestIptablesMarks(t *testing.T) {
	for _, tt := range []struct {
		rule, want string // owner, bits, r or w
	}{
		{"-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff", "w 0xffffffff"},
		{"-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000", "kube-proxy w 0x4000"},
		{"-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000", "kube-proxy w 0x4000"},
		{"-A cali-PREROUTING -i cali+ -j MARK --set-xmark 0x40000/0x40000", "calico w 0x40000"},
		{"-A cali-PREROUTING -j MARK --set-xmark 0x0/0xf0000", "calico w 0xf0000"},
		{"-A CILIUM_PRE_mangle -m socket --transparent -j MARK --set-xmark 0x200/0xffffffff", "cilium w 0xffffffff"},
		{"-A OUTPUT -j MARK --and-mark 0xffff", "w 0xffff0000"},
		{"-A PREROUTING -j CONNMARK --restore-mark --nfmask 0xff --ctmask 0xff", "w 0xff"},
		{"-A PREROUTING -j CONNMARK --restore-mark", "w 0xffffffff"},
		{"-A POSTROUTING -j CONNMARK --save-mark", "r 0xffffffff"},
		{"-A POSTROUTING -j CONNMARK --save-mark --nfmask 0xff0000 --ctmask 0xffffffff", "r 0xff0000"},
		{"-A PREROUTING -j CONNMARK --set-xmark 0x1/0xffffffff", ""},
		{"-A PREROUTING -p tcp -j TPROXY --on-port 50080 --on-ip 0.0.0.0 --tproxy-mark 0x1/0x1", "w 0x1"},
		{"-A PREROUTING -p tcp -j TPROXY --on-port 50080 --on-ip 0.0.0.0 --tproxy-mark 0x0/0x0", ""},
		{"-A PREROUTING -p tcp -m socket --restore-skmark -j ACCEPT", "w 0xffffffff"},
		{"-A PREROUTING -j SET --map-set vpn src --map-mark", "w 0xffffffff"},
		{"-A PREROUTING -j HMARK --hmark-tuple src --hmark-mod 16 --hmark-offset 0x100 --hmark-rnd 0x1", "w 0xffffffff"},
		{"-A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP", "kube-proxy r 0x8000"},
		{"-A OUTPUT -m mark ! --mark 0xca6c -j DROP", "r 0xffffffff"},
		{"-A OUTPUT -m mark --mark 0x1/0x1 -j MARK --set-xmark 0x2/0x2", "w 0x2, r 0x1"},
		{"-A INPUT -p tcp -m comment --comment MARK -j ACCEPT", ""},
		{":PREROUTING ACCEPT [0:0]", ""},
		{"-A", ""},
	} {
		if got := summary(iptablesMarks("*mangle\n" + tt.rule + "\nCOMMIT\n")); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.rule, got, tt.want)
		}
	}
}

func TestNftMarks(t *testing.T) {
	for _, tt := range []struct{ expr, want string }{
		{`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}}`, "w 0xffffffff"},
		{`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"|": [{"&": [{"meta": {"key": "mark"}}, 4294901760]}, 5]}}}`, "w 0xffff"},
		{`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"|": [{"meta": {"key": "mark"}}, 16384]}}}`, "w 0x4000"},
		{`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"^": [{"&": [{"meta": {"key": "mark"}}, 4294950911]}, 16384]}}}`, "w 0x4000"},
		{`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"ct": {"key": "mark"}}}}`, "w 0xffffffff"},
		{`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"|": [{"&": [{"meta": {"key": "mark"}}, 4294901760]}, {"&": [{"ct": {"key": "mark"}}, 65535]}]}}}`, "w 0xffff"},
		{`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"<<": [{"meta": {"key": "mark"}}, 1]}}}`, "w 0xffffffff"},
		{`{"mangle": {"key": {"ct": {"key": "mark"}}, "value": {"meta": {"key": "mark"}}}}`, "r 0xffffffff"},
		{`{"mangle": {"key": {"meta": {"key": "priority"}}, "value": {"&": [{"meta": {"key": "mark"}}, 255]}}}`, "r 0xff"},
		{`{"vmap": {"key": {"meta": {"key": "mark"}}, "data": {"set": [[1, {"accept": null}]]}}}`, "r 0xffffffff"},
		{`{"match": {"op": "==", "left": {"concat": [{"meta": {"key": "iifname"}}, {"meta": {"key": "mark"}}]}, "right": "@known"}}`, "r 0xffffffff"},
		{`{"set": {"op": "add", "elem": {"&": [{"meta": {"key": "mark"}}, 240]}, "set": "@seen"}}`, "r 0xf0"},
		{`{"match": {"op": "==", "left": {"fib": {"result": "oif", "flags": ["daddr", "mark"]}}, "right": "vpn"}}`, "r 0xffffffff"},
		{`{"match": {"op": "==", "left": {"meta": {"key": "mark"}}, "right": 1}}`, "r 0xffffffff"},
		{`{"match": {"op": "==", "left": {"&": [{"meta": {"key": "mark"}}, 32768]}, "right": 32768}}`, "r 0x8000"},
		{`{"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}`, ""},
		{`{"accept": null}`, ""},
		{`"accept"`, ""},
		{`{"xt": {"type": "target", "name": "MARK"}}`, ""},
	} {
		dump := `{"nftables": [{"metainfo": {}}, {"table": {"name": "t"}}, {"rule": {"family": "ip", "table": "t", "chain": "c", "expr": [` + tt.expr + `]}}]}`
		users, err := nftMarks([]byte(dump))
		if got := summary(users); err != nil || got != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.expr, got, err, tt.want)
		}
	}
	if _, err := nftMarks([]byte("no json")); err == nil {
		t.Error("what is no JSON is read")
	}
}

// summary returns each user as "owner w 0xbits".
func summary(users []MarkUser) string {
	var list []string
	for _, u := range users {
		way := "w"
		if u.Reads {
			way = "r"
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %#x", u.Owner, way, u.Bits)))
	}
	return strings.Join(list, ", ")
}

func TestRoutingMarks(t *testing.T) {
	mask := uint32(0xff)
	users := routingMarks([]netlink.Rule{{}, {Mark: 1}, {Mark: 2, Mask: &mask}, {Mask: &mask}})
	if got := summary(users); got != "r 0xffffffff, r 0xff, r 0xff" {
		t.Errorf("%q", got)
	}
}

func TestLongestRun(t *testing.T) {
	for set, want := range map[uint32]plan.Mask{
		0xffffffff: 0xfffe0000, 0x0000ffff: 0x0000fffe, 0x0ff0: 0xff0, 0: 0, 0xff00ff00: 0xff000000, 0x80000000: 0x80000000,
	} {
		if got := longestRun(set); got != want {
			t.Errorf("longestRun(%#x) = %#x, want %#x", set, uint32(got), uint32(want))
		}
	}
}

func TestReadOptions(t *testing.T) {
	got, err := readOptions(strings.NewReader("# CONFIG_NET_SCH_BPF is not set\nCONFIG_NET_SCH_HTB=m\nCONFIG_X=\"a=b\"\n"))
	if err != nil || got["CONFIG_NET_SCH_HTB"] != "m" || got["CONFIG_NET_SCH_BPF"] != "" || got["CONFIG_X"] != `"a=b"` {
		t.Errorf("%v, %v", got, err)
	}
}

// TestThousandsOfMarkingRules: as many rules as some 4 MB of a program's output has room for are
// gone through once, and each counts once.
func TestThousandsOfMarkingRules(t *testing.T) {
	var dump strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&dump, "-A C%d -j MARK --set-xmark 0x1/0x1\n", i)
	}
	users := iptablesMarks(dump.String())
	var m Marks
	cost := boundtest.Measure(func() {
		m.add(users)
		m.add(users) // as another form of iptables-save prints them
	})
	if len(m.Users) != 100_000 {
		t.Errorf("%d users", len(m.Users))
	}
	if cost.CPU > 20*bound.CPU { // of minutes
		t.Errorf("takes %v", cost.CPU)
	}
	if taken, clashing := (Host{Marks: m}).otherMarks(1); taken != 1 || len(clashing) != 1 {
		t.Errorf("%#x, %v", taken, clashing)
	}
}

func FuzzRules(f *testing.F) {
	f.Add("-A PREROUTING -j MARK --set-xmark 0x1/0xffffffff")
	f.Add(`{"nftables": [{"rule": {"expr": [{"mangle": {"key": {"meta": {"key": "mark"}}, "value": {"|": [1]}}}]}}]}`)
	boundtest.Seeds[string](f, bound.Policy, `{"nftables":`, "-A ")
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			iptablesMarks(text)
			_, _ = nftMarks([]byte(text)) // whatever it is, no panic
		})
	})
}
