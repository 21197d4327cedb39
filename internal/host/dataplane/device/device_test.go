// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
)

func open(t *testing.T) *Conn {
	t.Helper()
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func lookup(t *testing.T, c *Conn, name string) Device {
	t.Helper()
	dev, err := c.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

func TestSuggest(t *testing.T) {
	names := []string{"lo", "eth0", "docker0", "br-1a2b3c"}
	for _, tt := range []struct{ name, want string }{
		{"eht0", "did you mean eth0?"},
		{"eth1", "did you mean eth0?"},
		{"ETH0", "did you mean eth0?"},
		{"wlan0", "there are br-1a2b3c, docker0, eth0, lo"},
	} {
		if got := suggest(tt.name, names); got != tt.want {
			t.Errorf("suggest(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
	many := make([]string, 20)
	for i := range many {
		many[i] = fmt.Sprintf("veth%02d", i)
	}
	if got := suggest("x", many); !strings.Contains(got, "and 12 more") {
		t.Errorf("suggest among 20 = %q", got)
	}
}

func TestForeign(t *testing.T) {
	for _, tt := range []struct {
		qdisc         Qdisc
		ours, foreign bool
	}{
		{Qdisc{Kind: "noqueue"}, false, false},
		{Qdisc{Kind: "mq"}, false, false},
		{Qdisc{Kind: "fq_codel"}, false, false},
		{Qdisc{Kind: "fq_codel", Handle: 0x80010000}, false, true},
		{Qdisc{Kind: "htb", Handle: 0x10000}, false, true},
		{Qdisc{Kind: "htb", Handle: HandleMajor << 16}, true, false},
		{Qdisc{Kind: "weir0", Handle: 0x80010000}, true, false},
	} {
		if tt.qdisc.Ours() != tt.ours || tt.qdisc.Foreign() != tt.foreign {
			t.Errorf("%s: ours %v, foreign %v", tt.qdisc, tt.qdisc.Ours(), tt.qdisc.Foreign())
		}
	}
}

func TestGSOLimit(t *testing.T) {
	for _, tt := range []struct {
		capacity policy.Rate
		want     uint32
	}{
		{1e6, 2*policy.FullFrame + gsoReserve},
		{100e6, 12500},
		{400e6, 50000},
		{1e9, 65536},
		{100e9, 65536},
	} {
		if got := GSOLimit(tt.capacity); got != tt.want {
			t.Errorf("GSOLimit(%d) = %d, want %d", tt.capacity, got, tt.want)
		}
	}
}

// What hangs below a classful qdisc cannot be put back; the log must say so.
func TestTakeSaysWhatIsLost(t *testing.T) {
	host := netnstest.Enter(t)
	c := open(t)
	host.Run("tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb")
	host.Run("tc", "class", "add", "dev", "lo", "parent", "1:", "classid", "1:1", "htb", "rate", "1mbit")
	host.Run("tc", "class", "add", "dev", "lo", "parent", "1:", "classid", "1:2", "htb", "rate", "1mbit")
	host.Run("tc", "qdisc", "add", "dev", "lo", "parent", "1:1", "handle", "11:", "pfifo")
	host.Run("tc", "filter", "add", "dev", "lo", "parent", "1:", "u32", "match", "u32", "0", "0", "flowid", "1:1")
	opts := dataplane.Options{Force: true, StateDir: t.TempDir()}
	var log bytes.Buffer
	if err := c.Take(lookup(t, c, "lo"), opts, false, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if want := `cannot_be_restored="2 classes, 1 inner qdiscs, 2 filters"`; !strings.Contains(log.String(), want) &&
		!strings.Contains(log.String(), `"2 classes, 1 inner qdiscs, 1 filters"`) {
		t.Errorf("log %s\nwant %s", log.String(), want)
	}
}

// At a port of a switch Weir replaces what Open vSwitch has set, and nothing that a person has.
func TestTakeAtASwitch(t *testing.T) {
	host := netnstest.Enter(t)
	c := open(t)
	opts := dataplane.Options{Switch: true, StateDir: t.TempDir()}
	for qdisc, taken := range map[string]bool{
		"handle 1: htb": true, "handle 1: pfifo": false, "handle 8001: htb": false, "htb": false, "pfifo": false,
	} {
		host.Run(append(strings.Fields("tc qdisc replace dev lo root"), strings.Fields(qdisc)...)...)
		err := c.Take(lookup(t, c, "lo"), opts, true, slog.New(slog.DiscardHandler))
		if taken != (err == nil) || !taken && !errors.Is(err, dataplane.ErrForeignQdisc) {
			t.Errorf("%s: %v, want taken = %v", qdisc, err, taken)
		}
		host.Run("tc", "qdisc", "del", "dev", "lo", "root")
	}
	if (Qdisc{Kind: "netem", Handle: 1 << 16}).OfSwitch() {
		t.Error("netem 1: may be a person's")
	}
}

// A manager of networks that sets its qdisc in Weir's place gets it back with a cleanup. One that
// does nothing else has the device after a while.
func TestTakeBack(t *testing.T) {
	host := netnstest.Enter(t)
	c := open(t)
	opts := dataplane.Options{StateDir: t.TempDir()}
	lo := lookup(t, c, "lo")
	var log bytes.Buffer
	take := func(held bool) error { return c.Take(lo, opts, held, slog.New(slog.NewTextHandler(&log, nil))) }
	for i := range mostTakenBack {
		host.Run("tc", "qdisc", "replace", "dev", "lo", "root", "handle", "5:", "pfifo", "limit", strconv.Itoa(70+i))
		if err := take(true); err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		host.Run("tc", "qdisc", "del", "dev", "lo", "root")
		host.Run("tc", "qdisc", "add", "dev", "lo", "root", "handle", "77e1:", "pfifo")
		if err := take(true); err != nil {
			t.Fatalf("of Weir's own: %v", err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("it is said twice: %s", log.String())
	}
	if err := c.GiveBack(lo, opts, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if root := host.Run("tc", "qdisc", "show", "dev", "lo"); !strings.Contains(root, "pfifo 5: root refcnt 2 limit 89p") {
		t.Errorf("after cleanup there is %s", root)
	}
	if err := take(true); !errors.Is(err, dataplane.ErrForeignQdisc) || !strings.Contains(err.Error(), "21 times within a minute") {
		t.Errorf("once more: %v", err)
	}
	if err := take(false); !errors.Is(err, dataplane.ErrForeignQdisc) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("where Weir was not: %v", err)
	}
	if !c.takenBack.again(time.Now().Add(time.Minute)) {
		t.Error("not taken back after a minute")
	}
}

// A device that was renamed while Weir's qdisc was there gets back what it had, and nothing is
// remembered of it afterwards.
func TestRenamedDeviceGetsBackWhatItHad(t *testing.T) {
	host := netnstest.Enter(t)
	c := open(t)
	opts := dataplane.Options{Force: true, StateDir: t.TempDir()}
	quiet := slog.New(slog.DiscardHandler)
	host.Run("ip", "link", "add", "v-0", "type", "veth", "peer", "name", "v1")
	host.Run("tc", "qdisc", "add", "dev", "v-0", "root", "handle", "5:", "pfifo", "limit", "77")
	if err := c.Take(lookup(t, c, "v-0"), opts, false, quiet); err != nil {
		t.Fatal(err)
	}
	host.Run("tc", "qdisc", "replace", "dev", "v-0", "root", "handle", "77e1:", "pfifo")
	host.Run("ip", "link", "set", "v-0", "name", "wan0")
	if former, err := c.Former(lookup(t, c, "wan0"), opts); err != nil || former.Kind != "pfifo" {
		t.Errorf("%+v, %v", former, err)
	}
	if err := c.GiveBack(lookup(t, c, "wan0"), opts, quiet); err != nil {
		t.Fatal(err)
	}
	if root := host.Run("tc", "qdisc", "show", "dev", "wan0"); !strings.Contains(root, "qdisc pfifo 5: root") || !strings.Contains(root, "limit 77p") {
		t.Errorf("after cleanup there is %s", root)
	}
	if left, err := os.ReadDir(opts.StateDir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// What users of a device with many queues lose is known while Weir's qdisc is there, and
// before.
func TestFormer(t *testing.T) {
	host := netnstest.Enter(t)
	c := open(t)
	host.Run("ip", "link", "add", "v0", "numtxqueues", "4", "type", "veth", "peer", "name", "v1", "numrxqueues", "4")
	host.Run("tc", "qdisc", "add", "dev", "v0", "root", "handle", "8001:", "mq")
	for _, queue := range []string{"1", "2", "3", "4"} {
		host.Run("tc", "qdisc", "replace", "dev", "v0", "parent", "8001:"+queue, "pfifo")
	}
	host.Run("ip", "link", "set", "v0", "up")
	opts := dataplane.Options{Force: true, StateDir: t.TempDir()}
	want := Former{Kind: "mq", Leaf: "pfifo", Queues: 4}
	check := func(when string, want Former) {
		t.Helper()
		if got, err := c.Former(lookup(t, c, "v0"), opts); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", when, got, err, want)
		}
	}
	check("before Weir came", want)
	if err := c.Take(lookup(t, c, "v0"), opts, false, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	host.Run("tc", "qdisc", "replace", "dev", "v0", "root", "handle", fmt.Sprintf("%x:", HandleMajor), "htb")
	check("with Weir's qdisc", want)
	opts.StateDir = t.TempDir()
	check("with Weir's qdisc, and nothing remembered", Former{})
	if text := want.String() + ", " + (Former{Kind: "fq"}).String(); text != "mq with pfifo, fq" {
		t.Error(text)
	}
}

func TestLookupAndRoot(t *testing.T) {
	host := netnstest.Enter(t)
	c := open(t)
	if root, err := c.Root(lookup(t, c, "lo")); err != nil || root.Kind != "noqueue" || !root.Default() {
		t.Errorf("root of lo: %+v, %v", root, err)
	}
	host.Run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "v1")
	if root, err := c.Root(lookup(t, c, "v0")); err != nil || !root.Default() {
		t.Errorf("root of a device that is down: %+v, %v", root, err)
	}
	if _, err := c.Lookup("v2"); !errors.Is(err, dataplane.ErrNoDevice) || !strings.Contains(err.Error(), "did you mean v") {
		t.Errorf("Lookup(v2): %v", err)
	}
	if _, err := c.LookupIndex(4711); !errors.Is(err, dataplane.ErrNoDevice) {
		t.Errorf("LookupIndex(4711): %v", err)
	}
}

// Without privilege: one clear error, and nothing done.
func TestPrivilege(t *testing.T) {
	host := netnstest.Enter(t)
	host.Run("tc", "qdisc", "add", "dev", "lo", "root", "handle", "1:", "pfifo")
	var err error
	withoutCapabilities(t, func() {
		c := open(t)
		err = c.DeleteRoot(lookup(t, c, "lo"))
	})
	if !errors.Is(err, dataplane.ErrPrivilege) || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("DeleteRoot without privilege: %v", err)
	}
	if show := host.Run("tc", "qdisc", "show", "dev", "lo"); !strings.Contains(show, "pfifo 1:") {
		t.Errorf("qdisc: %s", show)
	}
}

// withoutCapabilities runs do on this thread without effective capabilities.
func withoutCapabilities(t *testing.T, do func()) {
	t.Helper()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var full [2]unix.CapUserData
	if err := unix.Capget(&header, &full[0]); err != nil {
		t.Fatal(err)
	}
	none := full
	none[0].Effective, none[1].Effective = 0, 0
	if err := unix.Capset(&header, &none[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&header, &full[0]); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

func TestRememberAndRecall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "file.json")
	var got memory
	if err := Recall(path, &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("recall of nothing: %v", err)
	}
	want := memory{Device: "eth0", Ifindex: 2, Kind: "tbf", Handle: 0x10000, Options: []byte{1, 2, 3}}
	for range 2 {
		if err := Remember(path, want); err != nil {
			t.Fatal(err)
		}
	}
	if err := Recall(path, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("%d files left", len(entries))
	}
	if err := os.WriteFile(path, []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Recall(path, &got); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("recall of a broken file: %v, want an error that names it", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{8, 0, 1, 0, 't', 'b', 'f', 0})
	f.Fuzz(func(t *testing.T, attrs []byte) {
		body := append(make([]byte, 20), attrs...)
		q, err := parseQdisc(body)
		if err == nil {
			accepted(q)
		}
		_, _, _ = parseFilter(body)
	})
}

// Containers come and go on a busy host: a list in whose middle that happens is no error,
// and has what was there all the time.
func TestListsWhileDevicesChange(t *testing.T) {
	host := netnstest.Enter(t)
	var script strings.Builder
	for i := range 50 {
		fmt.Fprintf(&script, "link add port%d type veth peer name peer%d\n", i, i)
	}
	add := host.Command("ip", "-batch", "-")
	add.Stdin = strings.NewReader(script.String())
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("make 50 pairs: %v: %s", err, out)
	}
	churn := host.Command("ip", "-force", "-batch", "-")
	changes, err := churn.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := churn.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			if _, err := fmt.Fprint(changes, "link add come type veth peer name go\nlink del come\n"); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		churn.Process.Kill()
		churn.Wait()
		<-stopped
	})

	c := open(t)
	port := lookup(t, c, "port49")
	for range 200 {
		above, err := c.Above(port)
		if err != nil {
			t.Fatal(err)
		}
		// Both ends of a pair are here: packets of sockets may come by each.
		if len(above) < 100 {
			t.Fatalf("%d devices above port49, want at least 100", len(above))
		}
		if _, err := c.IFBs(); err != nil {
			t.Fatal(err)
		}
	}
}
