// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device/netnstest"
)

// wire puts a veth into a container's namespace and returns the container's end.
func wire(t *testing.T, host, box *netnstest.Netns, name string) (*Conn, Device) {
	t.Helper()
	host.Run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", box.Name)
	inside, err := OpenNetns(box.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	return inside, lookup(t, inside, "eth0")
}

func wantGSO(t *testing.T, c *Conn, want uint32) {
	t.Helper()
	dev := lookup(t, c, "eth0")
	if dev.GSOMaxSize != want || (dev.GSOIPv4MaxSize != want && dev.GSOIPv4MaxSize != 0) {
		t.Errorf("gso_max_size %d, gso_ipv4_max_size %d, want %d", dev.GSOMaxSize, dev.GSOIPv4MaxSize, want)
	}
}

// former leaves what a former version of Weir does that has lowered the limit of a device.
func former(t *testing.T, opts dataplane.Options, box *netnstest.Netns, inside *Conn, dev Device, limit uint32) {
	t.Helper()
	inode, err := netnsInode(box.Path())
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"netns":%q,"inode":%d,"ifindex":%d,"former":{"size":%d,"ipv4_size":%d},"set":%d}`,
		box.Path(), inode, dev.Index, dev.GSOMaxSize, dev.GSOIPv4MaxSize, limit)
	path := filepath.Join(StateDir(opts), fmt.Sprintf("gso-%d-%d.json", inode, dev.Index))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := inside.setGSO(dev.Index, GSO{Size: limit, IPv4Size: min(limit, dev.GSOIPv4MaxSize)}); err != nil {
		t.Fatal(err)
	}
	wantGSO(t, inside, limit)
}

// What a former version has limited is given back once; what was set by hand since stays, and what is
// gone is forgotten.
func TestRestoreGSO(t *testing.T) {
	host, box := netnstest.Enter(t), netnstest.New(t)
	inside, eth0 := wire(t, host, box, "v0")
	opts := dataplane.Options{StateDir: t.TempDir()}
	restore := func() {
		t.Helper()
		if err := RestoreGSO(opts, slog.Default()); err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(opts.StateDir); len(left) > 0 {
			t.Errorf("%d files left", len(left))
		}
	}
	restore()
	former(t, opts, box, inside, eth0, 12500)
	restore()
	wantGSO(t, inside, eth0.GSOMaxSize)

	former(t, opts, box, inside, eth0, 12500)
	box.Run("ip", "link", "set", "eth0", "gso_max_size", "9000")
	restore()
	wantGSO(t, inside, 9000)

	former(t, opts, box, inside, eth0, 12500)
	host.Run("ip", "link", "del", "v0")
	restore()
}
