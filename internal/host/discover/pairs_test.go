// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"weir/internal/host/discover/within"
)

// Pairs of both kinds lead into a namespace; other devices with an end elsewhere do not.
func TestPairsLeadIntoNamespaces(t *testing.T) {
	l := &Links{links: map[int]link{
		2: {Index: 2, Name: "veth2", Kind: "veth", Peer: 12, Nsid: 7},
		3: {Index: 3, Name: "nk3", Kind: "netkit", Peer: 13, Nsid: 7},
		4: {Index: 4, Name: "vx4", Kind: "vxlan", Peer: 14, Nsid: 7},
		5: {Index: 5, Name: "nk5", Kind: "netkit", Peer: 15, Nsid: noNsid},
	}}
	var names []string
	for _, d := range l.devices(&namespace{nsid: 7}) {
		names = append(names, fmt.Sprint(d.Name, "-", d.PeerIfindex))
	}
	if got := strings.Join(names, " "); got != "veth2-12 nk3-13" {
		t.Errorf("devices of the namespace: %q", got)
	}
	if peerElsewhere(l.links[3]) != 13 || peerElsewhere(l.links[5]) != 0 {
		t.Error("the other end of a netkit pair is not known")
	}
}

// A namespace behind a netkit pair is found as one behind a veth is.
func TestNetnsBehindNetkit(t *testing.T) {
	h := newTestHost(t)
	inside, _ := newTestNetns(t)
	h.netkit("nk0", inside)
	dir := t.TempDir()
	name(t, inside, filepath.Join(dir, "pod"))
	n := newNetns(logger(t), runLinks(t, h.path), dir)
	if err := n.Add("pod", "pod"); err != nil {
		t.Fatal(err)
	}
	runSource(t, n).waitFor("netns:pod", "with its netkit device", having("nk0"))
}

// netkit makes a pair whose other end is in another namespace.
func (h *testHost) netkit(name, inside string) {
	h.t.Helper()
	ns, err := netns.GetFromPath(inside)
	if err != nil {
		h.t.Fatal(err)
	}
	defer ns.Close()
	pair := &netlink.Netkit{LinkAttrs: netlink.NewLinkAttrs(), Mode: netlink.NETKIT_MODE_L2}
	pair.Name = name
	peer := netlink.NewLinkAttrs()
	peer.Name, peer.Namespace = "eth0", netlink.NsFd(ns)
	pair.SetPeerAttrs(&peer)
	err = h.LinkAdd(pair)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) {
		h.t.Skip("skipped: this kernel has no netkit: ", err)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// A namespace and a device that are waited for say what is missing.
func TestAwaits(t *testing.T) {
	links := newFakeLinks()
	for _, c := range []struct {
		name, want string
		kinds      []within.Device
		err        error
	}{
		{"gone", "network namespace /run/netns/gone is not there", nil, fs.ErrNotExist},
		{"odd", "network namespace /run/netns/odd cannot be read: invalid argument", nil, unix.EINVAL},
		{"bare", "no veth or netkit pair of this host leads into network namespace /run/netns/bare", []within.Device{{Name: "lo"}}, nil},
		{"overlay", "no veth or netkit pair of this host leads into network namespace /run/netns/overlay, what it sends by eth0 (veth) is not seen; attach its device, unit or cgroup instead",
			[]within.Device{{Name: "lo"}, {Name: "eth0", Kind: "veth"}}, nil},
	} {
		devices := func(string) ([]within.Device, error) { return c.kinds, c.err }
		if got, unseen := within.Awaits("/run/netns/"+c.name, devices); got != c.want || unseen != (c.name == "overlay") {
			t.Errorf("%s: %q, %v, want %q", c.name, got, unseen, c.want)
		}
	}
	d := newDevices(logger(t), links)
	if err := d.Add("vm", "tap1", Wait); err != nil {
		t.Fatal(err)
	}
	if w := d.list()[0]; w.Awaits != "device tap1 is not on this host" {
		t.Errorf("a device that is waited for: %+v", w)
	}
}
