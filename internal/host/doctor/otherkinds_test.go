// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane/device/netnstest"
)

// What writes or compares the mark is found wherever a host has it, each with its bits.
func TestUsersOfTheMark(t *testing.T) {
	ns := netnstest.Enter(t)
	ns.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "a1")
	ns.Run("tc", "qdisc", "add", "dev", "a0", "clsact")
	ns.Run("tc", "qdisc", "add", "dev", "a1", "root", "handle", "1:", "htb")
	tried := 0
	for _, test := range []struct {
		name, add, remove string
		want              string // owner, r or w, bits
	}{
		{"a filter by the mark", "tc filter add dev a1 parent 1: pref 5 protocol ip handle 0x10000/0xff0000 fw classid 1:1", "tc filter del dev a1 parent 1: pref 5", "r 0xff0000"},
		{"a filter by the whole mark", "tc filter add dev a0 egress pref 5 protocol ip handle 7 fw action drop", "tc filter del dev a0 egress pref 5", "r 0xffffffff"},
		{"an action that writes the mark", "tc filter add dev a0 ingress pref 5 protocol all matchall action skbedit mark 0x10/0xf0", "tc filter del dev a0 ingress pref 5", "w 0xf0"},
		{"a rule of policy routing", "ip rule add pref 300 not fwmark 0xca6c lookup 9", "ip rule del pref 300", "r 0xffffffff"},
		{"a policy of IPsec", "ip xfrm policy add src 192.0.2.0/24 dst 198.51.100.0/24 dir out mark 0x42 mask 0xff tmpl proto esp mode tunnel", "ip xfrm policy flush", "r 0xff"},
		{"a rule of nftables", "nft add table ip t; nft add chain ip t c; nft add rule ip t c meta mark vmap { 1 : accept }", "nft delete table ip t", "r 0xffffffff"},
	} {
		if out, err := exec.Command("sh", "-ec", test.add).CombinedOutput(); err != nil {
			t.Logf("skipped: %s: this kernel lacks it: %s", test.name, out)
			continue
		}
		tried++
		found := lookMarks(context.Background())
		if len(found.Unread) > 0 {
			t.Errorf("%s: unread: %v", test.name, found.Unread)
		}
		if got := summary(found.Users); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		ns.Run(strings.Fields(test.remove)...)
		if left := lookMarks(context.Background()).Users; len(left) > 0 {
			t.Errorf("%s: %+v after it is gone", test.name, left)
		}
	}
	if tried < 3 {
		t.Error("the test shows little")
	}
}

// A WireGuard device gives its packets a mark that no rule compares: its bits are another's, too.
func TestMarkOfWireGuard(t *testing.T) {
	ns := netnstest.Enter(t)
	if out, err := exec.Command("ip", "link", "add", "wg0", "type", "wireguard").CombinedOutput(); err != nil {
		t.Skipf("skipped: this kernel has no WireGuard: %s", out)
	}
	if left := lookMarks(context.Background()); len(left.Users)+len(left.Unread) > 0 {
		t.Errorf("a device without a mark: %+v", left)
	}
	const mark = 0xca6c
	if _, err := askWireGuard(wgSetDevice, unix.NLM_F_ACK, nl.NewRtAttr(wgName, nl.ZeroTerminated("wg0")), nl.NewRtAttr(wgMark, nl.Uint32Attr(mark))); err != nil {
		t.Fatal(err)
	}
	found := lookMarks(context.Background())
	if got := summary(found.Users); got != "w 0xca6c" || len(found.Unread) > 0 {
		t.Errorf("%q, %v", got, found.Unread)
	}
	if taken := (Host{Marks: found}).takenMarks(); taken != mark {
		t.Errorf("taken are %#x, want %#x", taken, mark)
	}
	ns.Run("ip", "link", "del", "wg0")
	if left := lookMarks(context.Background()).Users; len(left) > 0 {
		t.Errorf("%+v after it is gone", left)
	}
}

// A program gives its sockets a mark that no rule compares (SO_MARK): its bits are another's, too,
// and mark_mask: auto takes others.
func TestMarkOfSockets(t *testing.T) {
	netnstest.Enter(t)
	const mark = 0x30000
	for _, test := range []struct {
		name         string
		family, kind int
		protocol     int
		bind         unix.Sockaddr
		listen       bool
	}{
		{"TCP", unix.AF_INET, unix.SOCK_STREAM, 0, &unix.SockaddrInet4{Port: 4711}, true},
		{"TCP", unix.AF_INET6, unix.SOCK_STREAM, 0, &unix.SockaddrInet6{Port: 4712}, true},
		{"UDP", unix.AF_INET, unix.SOCK_DGRAM, 0, &unix.SockaddrInet4{Port: 4711}, false},
		{"UDP", unix.AF_INET6, unix.SOCK_DGRAM, 0, &unix.SockaddrInet6{Port: 4712}, false},
		{"raw", unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP, nil, false},
	} {
		fd, err := unix.Socket(test.family, test.kind|unix.SOCK_CLOEXEC, test.protocol)
		if err != nil {
			t.Fatal(err)
		}
		if test.bind != nil {
			err = unix.Bind(fd, test.bind)
		}
		if test.listen {
			err = errors.Join(err, unix.Listen(fd, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		if left := lookMarks(context.Background()); len(left.Users)+len(left.Unread) > 0 {
			t.Errorf("%s: a socket without a mark: %+v", test.name, left)
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark); err != nil {
			t.Fatal(err)
		}
		if _, err := socketMarks(test.name, unix.IPPROTO_RAW, unix.AF_INET); test.kind == unix.SOCK_RAW && errors.Is(err, unix.ENOENT) {
			t.Log("skipped: this kernel does not tell of raw sockets")
			unix.Close(fd)
			continue
		}
		found := lookMarks(context.Background())
		if got := summary(found.Users); got != "w 0x30000" || len(found.Unread) > 0 {
			t.Errorf("%s: %q, %v", test.name, got, found.Unread)
		}
		seen := MarkTrouble(context.Background(), 0xffff0000, false).Seen
		if want := "writes 0x30000 of Weir's bits 0xffff0000"; !strings.Contains(seen, want) || !strings.Contains(seen, "SO_MARK 0x30000 of a "+test.name+" socket") {
			t.Errorf("%s: %q, want %q", test.name, seen, want)
		}
		if mask, why := ChooseMask(context.Background(), 0xffff0000); mask == 0 || mask&mark != 0 {
			t.Errorf("%s: chosen is %#x, %q", test.name, mask, why.Seen)
		}
		unix.Close(fd)
	}
}
