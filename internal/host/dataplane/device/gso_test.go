// SPDX-License-Identifier: Apache-2.0

package device

import (
	"log/slog"
	"os"
	"testing"

	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
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

func TestLimitAndRestoreGSO(t *testing.T) {
	host, box := netnstest.Enter(t), netnstest.New(t)
	inside, eth0 := wire(t, host, box, "v0")
	opts := dataplane.Options{StateDir: t.TempDir()}
	limit := func(bytes uint32) {
		t.Helper()
		if err := LimitGSO(opts, box.Path(), eth0.Index, bytes); err != nil {
			t.Fatal(err)
		}
		wantGSO(t, inside, min(bytes, eth0.GSOMaxSize))
	}
	restore := func(ends ...int) {
		t.Helper()
		if err := RestoreGSO(opts, ends, slog.Default()); err != nil {
			t.Fatal(err)
		}
	}
	limit(12500)
	limit(12500)
	limit(25000) // the link's capacity was raised
	restore(eth0.Peer)
	wantGSO(t, inside, 25000)
	restore()
	wantGSO(t, inside, eth0.GSOMaxSize)
	restore() // nothing left to do

	// One device alone.
	limit(12500)
	for range 2 { // the second time there is nothing left to do
		if err := RestoreGSOOf(opts, box.Path(), eth0.Index); err != nil {
			t.Fatal(err)
		}
		wantGSO(t, inside, eth0.GSOMaxSize)
	}
	if err := RestoreGSOOf(opts, box.Path()+"-gone", eth0.Index); err != nil {
		t.Error(err)
	}

	// Set by hand since: stays.
	limit(12500)
	box.Run("ip", "link", "set", "eth0", "gso_max_size", "9000")
	restore()
	wantGSO(t, inside, 9000)

	// Lower than the limit already: stays.
	if err := LimitGSO(opts, box.Path(), eth0.Index, 12500); err != nil {
		t.Fatal(err)
	}
	wantGSO(t, inside, 9000)
	if left, _ := os.ReadDir(opts.StateDir); len(left) > 0 {
		t.Errorf("%d files left", len(left))
	}
}

func TestRestoreGSOForgetsWhatIsGone(t *testing.T) {
	host, box := netnstest.Enter(t), netnstest.New(t)
	_, eth0 := wire(t, host, box, "v0")
	opts := dataplane.Options{StateDir: t.TempDir()}
	if err := LimitGSO(opts, box.Path(), eth0.Index, 5000); err != nil {
		t.Fatal(err)
	}
	host.Run("ip", "link", "del", "v0")
	if err := RestoreGSO(opts, nil, slog.Default()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(opts.StateDir); len(left) > 0 {
		t.Errorf("%d files left", len(left))
	}
}
