// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
)

// Filters of other programs that end with OK are found where workloads' packets pass them, with
// what helps; those that do not, and those of other devices and directions, are not.
func TestLosses(t *testing.T) {
	ns := netnstest.Enter(t)
	ns.Run("ip", "link", "add", "port0", "type", "veth", "peer", "name", "port1")
	ns.Run("ip", "link", "add", "link0", "type", "veth", "peer", "name", "link1")
	ns.Run("ip", "link", "add", "br0", "type", "bridge")
	tried := 0
	const (
		pass      = "u32 match u32 0 0 action pass"
		bandwidth = "u32 match u32 0 0 action police rate 8mbit burst 100k conform-exceed drop/ok"
	)
	for _, test := range []struct {
		name, device, qdisc, side, filter string
		found                             bool
	}{
		{"pass at a port", "port0", "clsact", "ingress", pass, true},
		{"pass at a port with an ingress qdisc", "port0", "ingress", "ingress", pass, true},
		{"a class id", "port0", "clsact", "ingress", "u32 match u32 0 0 flowid 1:5", true},
		{"police", "port0", "clsact", "ingress", bandwidth, true},
		{"matchall", "port0", "clsact", "ingress", "matchall action ok", true},
		{"flower that changes a packet", "port0", "clsact", "ingress", "protocol ip flower dst_ip 192.0.2.1 action skbedit priority 3 pass", true},
		{"what a port receives", "port0", "clsact", "egress", pass, false},
		{"drop at a port", "port0", "clsact", "ingress", "protocol ip flower dst_ip 192.0.2.1 action drop", false},
		{"a copy at a port", "port0", "clsact", "ingress", "u32 match u32 0 0 action mirred egress mirror dev link1", false},
		{"go on at a port", "port0", "clsact", "ingress", "u32 match u32 0 0 action continue", false},
		{"pass at a link", "link0", "clsact", "egress", pass, true},
		{"a class id at a link", "link0", "clsact", "egress", "u32 match u32 0 0 flowid 1:5", true},
		{"a class id for what a link receives", "link0", "clsact", "ingress", "u32 match u32 0 0 flowid 1:5", false},
		{"what a link receives", "link0", "clsact", "ingress", pass, false},
		{"pass at a bridge", "br0", "clsact", "egress", pass, true},
		{"pass at another device", "link1", "clsact", "ingress", pass, false},
	} {
		func() { // in this thread, which is in the namespace
			ns.Run("tc", "qdisc", "add", "dev", test.device, test.qdisc)
			defer ns.Run("tc", "qdisc", "del", "dev", test.device, test.qdisc)
			add := []string{"tc", "filter", "add", "dev", test.device, test.side}
			if !strings.HasPrefix(test.filter, "protocol") {
				add = append(add, "protocol", "all")
			}
			add = append(add, strings.Fields(test.filter)...)
			if out, err := exec.Command(add[0], add[1:]...).CombinedOutput(); err != nil {
				t.Logf("skipped: %s: this kernel lacks it: %s", test.name, out)
				return
			}
			tried++
			for mask, want := range map[plan.Mask]bool{0: test.found, plan.UsualMask: false} {
				found, err := LookLosses(mask, []string{"port0"}, []string{"link0"})
				if err != nil {
					t.Fatal(err)
				}
				named := slices.ContainsFunc(found.Troubles, func(l Trouble) bool {
					return l.About == test.device && strings.Contains(l.Seen, "may end with OK") && strings.Contains(l.Remedy, "mark_mask")
				})
				if named != want {
					t.Errorf("%s, mask %#x: found %v, want %v: %+v", test.name, uint32(mask), named, want, found.Troubles)
				}
			}
		}()
	}
	if tried < 2 {
		t.Error("the test shows nothing")
	}
}

// A filter in a block that devices share is found at each of them.
func TestLossesInSharedBlocks(t *testing.T) {
	ns := netnstest.Enter(t)
	ns.Run("ip", "link", "add", "port0", "type", "veth", "peer", "name", "port1")
	ns.Run("ip", "link", "add", "br0", "type", "bridge")
	ns.Run("tc", "qdisc", "add", "dev", "port0", "ingress_block", "22", "clsact")
	ns.Run("tc", "qdisc", "add", "dev", "br0", "egress_block", "22", "clsact")
	named := func() (names []string) {
		found, err := LookLosses(0, []string{"port0"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range found.Troubles {
			names = append(names, l.About)
		}
		slices.Sort(names)
		return names
	}
	if n := named(); len(n) > 0 {
		t.Errorf("%q before there is a filter", n)
	}
	ns.Run("tc", "filter", "add", "block", "22", "pref", "7", "protocol", "ip", "u32", "match", "u32", "0", "0", "flowid", "1:5")
	if n := named(); !slices.Equal(n, []string{"br0", "port0"}) {
		t.Errorf("%q, want br0 and port0", n)
	}
}

// A WireGuard tunnel is named as long as it is up and no link.
func TestTunnelLosesClasses(t *testing.T) {
	ns := netnstest.Enter(t)
	if out, err := exec.Command("ip", "link", "add", "wg0", "type", "wireguard").CombinedOutput(); err != nil {
		t.Skipf("skipped: this kernel has no WireGuard: %s", out)
	}
	named := func(links ...string) bool {
		losses, err := LookLosses(plan.UsualMask, nil, links)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(losses.Troubles, func(l Trouble) bool { return l.About == "wg0" && strings.Contains(l.Remedy, "as a link") })
	}
	if named() {
		t.Error("a tunnel that is down is named")
	}
	ns.Run("ip", "link", "set", "wg0", "up")
	if !named() {
		t.Error("a tunnel that is up is not named")
	}
	if named("wg0") {
		t.Error("a tunnel that is a link is named")
	}
}
