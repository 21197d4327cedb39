// SPDX-License-Identifier: Apache-2.0

package look

import (
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"weir/internal/host/dataplane/device/netnstest"
)

func notLinked() bool { return false }

// TestHostWithItsOwnNumber: a namespace may have a number in itself, too. Some kernels (6.18.15,
// not 6.18.44 and 7.3) then say that number in their notices of the host's own devices, which count
// as the host's all the same.
func TestHostWithItsOwnNumber(t *testing.T) {
	netnstest.Enter(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "v0"}, PeerName: "v1"}
	must(netlink.LinkAdd(bridge))
	must(netlink.LinkAdd(port))
	own, err := netns.Get()
	must(err)
	defer own.Close()
	must(netlink.SetNetNsIdByFd(int(own), 7))
	w, err := New(notLinked)
	must(err)
	t.Cleanup(w.changes.close)
	_, err = w.Look()
	must(err)
	must(netlink.LinkSetMaster(port, bridge))
	_, err = w.Look()
	must(err)
	for _, d := range w.host.devices {
		if d.Name == "v0" && d.Master != bridge.Attrs().Index {
			t.Errorf("v0 is seen as a port of %d, it is one of %d", d.Master, bridge.Attrs().Index)
		}
	}
}
