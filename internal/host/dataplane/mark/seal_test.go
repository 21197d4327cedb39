// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// Packets of sockets are sealed at lo and at the devices above a link while a workload is
// known by its cgroup, and no longer. The next agent leaves the programs, Missing misses them
// where they were, Moved at a new device, and a device that is itself a link has both programs.
func TestSealedDevices(t *testing.T) {
	ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
		bed := marktest.New(t, host)
		all := bed.State()
		portsOnly := bed.State()
		portsOnly.Ports = slices.Clone(portsOnly.Ports[:1])
		up := lookup(t, m, marktest.Uplink)
		wantSeals := func(state plan.State, names ...string) {
			t.Helper()
			must(t, m.AttachLinkRules(up, state))
			if got := sealedDevices(t, m); !slices.Equal(got, names) {
				t.Fatalf("sealed at %v, want %v", got, names)
			}
			wantMissing(t, m, up, state, "")
		}
		wantSeals(portsOnly)
		wantSeals(all, "br0", "lo", "up0p", "vxlan0")

		host.Run("ip", "link", "add", "link", marktest.Uplink, "name", "mac2", "type", "macvlan", "mode", "bridge")
		wantMissing(t, m, up, all, "") // it is new
		if !m.Moved() {
			t.Error("a new device above the link is not followed")
		}
		wantSeals(all, "br0", "lo", "mac2", "up0p", "vxlan0")
		stacked := lookup(t, m, "mac2")
		must(t, m.AttachLink(stacked, all)) // up0, one of a pair, is above it, too
		must(t, m.DetachLink(stacked))
		wantMissing(t, m, up, all, "")

		before := programAt(t, m, above, loopback)
		for _, dev := range []string{"br0", "vxlan0"} {
			if id := programAt(t, m, above, lookup(t, m, dev).Index); id != before {
				t.Errorf("%s has program %d of its own, not %d as lo", dev, id, before)
			}
		}
		next := newMarker(t, m.opts, "tcx")
		next.tcx = m.tcx
		must(t, next.AttachLinkRules(up, all))
		if after := programAt(t, m, above, loopback); after != before {
			t.Errorf("the next agent has replaced program %d by %d", before, after)
		}
		must(t, m.detach(above, loopback))
		wantMissing(t, m, up, all, "lo")
		wantSeals(all, "br0", "lo", "mac2", "up0", "up0p", "vxlan0")

		host.Run("ip", "link", "del", "mac2")
		wantSeals(all, "br0", "lo", "up0", "up0p", "vxlan0")
		wantSeals(portsOnly)
		wantSeals(all, "br0", "lo", "up0p", "vxlan0")
		must(t, m.CleanupAll())
		if left := sealedDevices(t, m); len(left) > 0 {
			t.Errorf("after the cleanup, sealed at %v", left)
		}
		if text := host.Run("tc", "qdisc", "show", "dev", "lo"); strings.Contains(text, "clsact") {
			t.Errorf("after the cleanup, lo has %s", text)
		}
	})
}

// A workload on a macvlan has a lo of its own, where the program is sealing, too: until no
// workload is known by its cgroup.
func TestSealedInnerLo(t *testing.T) {
	host := netnstest.Enter(t)
	m := newMarker(t, netnstest.Options(t), "tcx")
	bed := marktest.New(t, host)
	all := bed.State()
	portsOnly := bed.State()
	portsOnly.Ports = slices.Clone(portsOnly.Ports[:1])
	up := lookup(t, m, marktest.Uplink)
	want := func(state plan.State, count int) []plan.Port {
		t.Helper()
		must(t, m.AttachLinkRules(up, state))
		list, err := m.at(innerLo).list()
		must(t, err)
		if len(list) != count {
			t.Fatalf("sealed in %v, want %d namespaces", list, count)
		}
		wantMissing(t, m, up, state, "")
		return list
	}
	want(portsOnly, 0)
	must(t, m.detach(innerLo, want(all, 1)[0].Ifindex))
	if missing, err := m.MissingAtLink(up, all, true); err != nil || len(missing) != 1 || !strings.Contains(missing[0], "at lo of /proc/") {
		t.Errorf("missing: %q, %v", missing, err)
	}
	want(all, 1)
	want(portsOnly, 0)
	want(all, 1)
	must(t, m.CleanupAll())
	if list, err := m.at(innerLo).list(); err != nil || len(list) > 0 {
		t.Errorf("after the cleanup, sealed in %v, %v", list, err)
	}
}

func sealedDevices(t *testing.T, m *Marker) (names []string) {
	t.Helper()
	list, err := m.at(above).list()
	must(t, err)
	for _, d := range list {
		names = append(names, d.Device)
	}
	slices.Sort(names)
	return names
}

// wantMissing checks that nothing is missing, or one thing that names a device.
func wantMissing(t *testing.T, m *Marker, link device.Device, state plan.State, name string) {
	t.Helper()
	missing, err := m.MissingAtLink(link, state, true)
	must(t, err)
	if m.Moved() && name != "" {
		t.Error("what another program has removed is said to be new")
	}
	if name == "" && len(missing) > 0 || name != "" && (len(missing) != 1 || !strings.HasSuffix(missing[0], " "+name)) {
		t.Errorf("missing: %q, want one of %q", missing, name)
	}
}

func lookup(t *testing.T, m *Marker, name string) device.Device {
	t.Helper()
	dev, err := m.conn.Lookup(name)
	must(t, err)
	return dev
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A copy that a bridge makes has no socket. It is of the class of the socket that sent it,
// below and above the number that a seal has room for beside Cilium; the host's copies are the
// host's.
func TestCopiesOfABridge(t *testing.T) {
	for _, number := range []plan.ClassID{6, 1023, 1024, 4095} {
		ways(t, func(t *testing.T, host *netnstest.Netns, m *Marker) {
			bed := marktest.New(t, host)
			state := bed.State()
			for i := range state.Ports {
				if state.Ports[i].Class == 6 {
					state.Ports[i].Class = number
				}
			}
			for i := range state.Classes {
				if state.Classes[i].ID == 6 {
					state.Classes[i].ID = number
				}
			}
			// The oldest port of a bridge sends a frame to all itself. The younger one,
			// the link, has a copy.
			host.Run("ip", "link", "add", "brup", "type", "bridge", "mcast_snooping", "0")
			for _, port := range []string{"first", "link1"} {
				host.Run("ip", "link", "add", port, "type", "veth", "peer", "name", port+"p")
				host.Run("ip", "link", "set", port+"p", "up")
				host.Run("ip", "link", "set", port, "master", "brup", "up")
			}
			host.Run("ip", "link", "set", "brup", "up")
			up := lookup(t, m, "link1")
			must(t, m.AttachLink(up, state))
			last := witness(t, up.Index, ebpf.AttachTCXEgress, onlyTransport...)
			tcIndex := witnessOf(t, skbTCIndex, up.Index, ebpf.AttachTCXEgress, onlyTransport...)
			for _, to := range []string{"ff:ff:ff:ff:ff:ff", "01:00:5e:01:02:03", "02:09:09:09:09:09"} {
				for name, want := range map[string]plan.ClassID{"workload": number, "nested": 8, "host": 0} {
					if !m.tcx && want == 0 {
						continue // a filter at the link comes behind the witness
					}
					bed.SendBy(t, bed.Frame(name, "brup", to), "link1")
					if got, _ := m.carrier.Split(tcIndex(), last()); got != want {
						t.Errorf("%s to %s: class %d, want %d (mark %#x, tc_index %#x)", name, to, got, want, last(), tcIndex())
					}
				}
			}
		})
		if t.Failed() {
			t.Fatalf("class %d", number)
		}
	}
}
