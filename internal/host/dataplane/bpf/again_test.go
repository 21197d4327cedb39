// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"weir/internal/core/plan"
)

// TestDeviceComesAgain: a device that goes and comes again by the same name, as a tunnel's does
// with its daemon, gets the qdisc that it had. The kernel need not verify another.
func TestDeviceComesAgain(t *testing.T) {
	for _, first := range []string{"the same backend", "another backend"} {
		t.Run(first, func(t *testing.T) {
			opts := onLink(t)
			want := threeClasses(plan.Schedulers[0])
			b := newBackend(t, opts)
			must(t, b.Set(t.Context(), want))
			had := mapID(t, b.obj.classes)
			up0, err := netlink.LinkByName("up0")
			must(t, err)
			must(t, netlink.LinkDel(up0))
			if err := b.Set(t.Context(), want); err == nil {
				t.Fatal("set without a device")
			}
			if first == "another backend" {
				must(t, b.Close())
				b = newBackend(t, opts)
			}
			must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "up0"}, PeerName: "up1"}))
			want.Classes = slices.Concat(want.Classes[:2], []plan.Class{{ID: 7, Name: "c7", Weight: 5}})
			must(t, b.Set(t.Context(), want))
			if has := mapID(t, b.obj.classes); has != had {
				t.Errorf("the classes are in map %d, and were in map %d", has, had)
			}
			missing, err := b.Missing()
			must(t, err)
			state, err := b.State()
			must(t, err)
			if len(missing) > 0 || len(state.Classes) != 3 || state.Classes[2].Weight != 5 {
				t.Errorf("missing %q, in force %+v", missing, state)
			}
			must(t, b.Cleanup(t.Context()))
		})
	}
}

func mapID(t *testing.T, m *ebpf.Map) ebpf.MapID {
	t.Helper()
	info, err := m.Info()
	must(t, err)
	id, _ := info.ID()
	return id
}
