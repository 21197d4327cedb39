// SPDX-License-Identifier: Apache-2.0

package look

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"weir/internal/core/paths"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/test/boundtest"
)

// TestManyPairsInside: the root of a container makes pairs of devices into a namespace inside of
// its own. A look there lists each namespace once, whatever the number of pairs that lead into it.
func TestManyPairsInside(t *testing.T) {
	const pairs = 500
	host := netnstest.Enter(t)
	box, deep := netnstest.New(t), netnstest.New(t)
	host.Run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "eth0", "netns", box.Name)
	var batch strings.Builder
	for i := range pairs {
		fmt.Fprintf(&batch, "link add a%d type veth peer name b%d netns %s\n", i, i, deep.Name)
	}
	cmd := box.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(batch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	v0, err := netlink.LinkByName("v0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(notLinked)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.changes.close)
	at, err := w.kernel.read()
	if err != nil {
		t.Fatal(err)
	}
	var now seen
	cost := boundtest.Measure(func() {
		now = w.kernel.look(at, paths.Workload{Devices: []int{v0.Attrs().Index}}, seen{}, false)
	})
	t.Logf("%d devices, %d namespaces: %v, %d KB", len(now.inside), len(now.spaces), cost.CPU, cost.Bytes>>10)
	if len(now.inside) != pairs+1 {
		t.Errorf("%d devices are seen, there are %d", len(now.inside), pairs+1)
	}
	if len(now.spaces) != 2 {
		t.Errorf("%d namespaces are noted, there are 2", len(now.spaces))
	}
	boundtest.Hold(t, func() { w.kernel.look(at, paths.Workload{Devices: []int{v0.Attrs().Index}}, seen{}, false) })
}
