// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/host/discover/machine"
	"weir/internal/host/discover/machine/machinetest"
)

func TestPlainName(t *testing.T) {
	for name, want := range map[string]string{"db": "db", "my db/2": "my-db-2", "_x": "vm_x", "größe": "gr--e", "": "vm"} {
		if got := plainName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// tapLines returns workloads as "vm:db vnet3 of db".
func tapLines(list []Workload) []string {
	var lines []string
	for _, w := range list {
		line := w.Key + " " + w.Devices[0].Name
		if w.Group != "" {
			line += " of " + w.Group
		}
		lines = append(lines, line)
	}
	return lines
}

func TestTaps(t *testing.T) {
	folder := t.TempDir()
	m := &machine.Finder{LibvirtFolders: []string{folder}, Proc: t.TempDir()}
	machinetest.Put(t, filepath.Join(folder, "db.xml"), machinetest.Domain)
	synctest.Test(t, func(t *testing.T) {
		links := newFakeLinks()
		devices := newDevices(logger(t), links)
		taps := newTaps(logger(t), links, devices, m)
		for _, pattern := range []string{"vnet*", "tap?"} {
			if err := taps.Add(pattern); err != nil {
				t.Fatal(err)
			}
		}
		if err := taps.Add("["); err == nil || !strings.Contains(err.Error(), "is no pattern") {
			t.Errorf("%v", err)
		}
		expect := func(when string, want ...string) {
			t.Helper()
			if got := tapLines(taps.list()); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		links.setLinks(link{Index: 1, Name: "lo"}, link{Index: 2, Name: "vnet3", Kind: "tuntap"}, link{Index: 3, Name: "vnet4", Kind: "tuntap"},
			link{Index: 4, Name: "vnet5", Kind: "bridge"}, link{Index: 5, Name: "tap1", Kind: "tuntap"}, link{Index: 6, Name: "tap12", Kind: "tuntap"})
		expect("at first", "vm:db vnet3 of db", "vm:db.2 vnet4 of db", "vm:tap1 tap1")

		// The machine of a tap that was there before is started.
		machinetest.QEMU(t, m.Proc, "10", "qemu-system-x86_64 -name late", "tap1")
		expect("asked too soon", "vm:db vnet3 of db", "vm:db.2 vnet4 of db", "vm:tap1 tap1")
		time.Sleep(machinesAtLeast)
		synctest.Wait()
		select {
		case <-taps.poke:
		default:
			t.Error("nobody would have looked again")
		}
		expect("later", "vm:db vnet3 of db", "vm:db.2 vnet4 of db", "vm:late tap1 of late")

		if err := devices.Add("mine", "vnet4"); err != nil {
			t.Fatal(err)
		}
		expect("a device with a name of its own", "vm:db vnet3 of db", "vm:late tap1 of late")
		if err := taps.Remove("vnet*"); err != nil {
			t.Fatal(err)
		}
		expect("without the pattern", "vm:late tap1 of late")
		if err := taps.Remove("vnet*"); err == nil || !strings.Contains(err.Error(), `attached: tap?`) {
			t.Errorf("%v", err)
		}
	})
}
