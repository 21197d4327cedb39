// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// domain is libvirt's state of a machine as libvirt 11 writes it, cut down to the fields
// that machines reads.
const domain = `<!--
WARNING: THIS IS AN AUTO-GENERATED FILE.
-->
<domstatus state='running' reason='booted' pid='4711'>
  <monitor path='/var/lib/libvirt/qemu/domain-1-db/monitor.sock' type='unix'/>
  <domain type='kvm' id='1'>
    <name>db</name>
    <uuid>0ec1e0f2-6a5e-4d0b-9f0d-3b1f0f1a2b3c</uuid>
    <devices>
      <disk type='file' device='disk'><target dev='vda' bus='virtio'/></disk>
      <interface type='network'>
        <mac address='52:54:00:00:00:01'/>
        <target dev='vnet3'/>
      </interface>
      <interface type='hostdev'><mac address='52:54:00:00:00:02'/></interface>
      <interface type='bridge'>
        <target dev='vnet4'/>
      </interface>
    </devices>
  </domain>
</domstatus>`

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// qemu makes a process of root's with a command line, and taps that it holds open.
func qemu(t testing.TB, proc, pid, cmdline string, taps ...string) {
	t.Helper()
	qemuOf(t, proc, pid, status(0, "000001ffffffffff"), cmdline, taps...)
}

// status returns /proc/PID/status of a process with a real uid and capabilities.
func status(uid int, capabilities string) string {
	return fmt.Sprintf("Name:\tqemu\nUid:\t%d\t0\t0\t0\nCapEff:\t%s\n", uid, capabilities)
}

func qemuOf(t testing.TB, proc, pid, status, cmdline string, taps ...string) {
	t.Helper()
	dir := filepath.Join(proc, pid)
	put(t, filepath.Join(dir, "status"), status)
	put(t, filepath.Join(dir, "cmdline"), strings.ReplaceAll(cmdline, " ", "\x00")+"\x00")
	for i, tap := range taps {
		fd := fmt.Sprint(20 + i)
		put(t, filepath.Join(dir, "fdinfo", fd), "pos:\t0\nflags:\t0104002\niff:\t"+tap+"\n")
		if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/net/tun", filepath.Join(dir, "fd", fd)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMachines(t *testing.T) {
	m := machines{libvirt: t.TempDir(), proc: t.TempDir()}
	put(t, filepath.Join(m.libvirt, "db.xml"), domain)
	put(t, filepath.Join(m.libvirt, "half.xml"), domain[:200])
	qemu(t, m.proc, "10", "/usr/bin/kvm -id 100 -name web,debug-threads=on -netdev type=tap,id=net0,ifname=tap100i0 -netdev type=tap,ifname=tap100i1", "tap100i1", "tap100i0")
	qemu(t, m.proc, "11", "/usr/libexec/qemu-kvm -name guest=mail-server,process=x --netdev bridge,id=a", "tap9", "tap8")
	qemu(t, m.proc, "12", "/usr/bin/qemu-system-x86_64 -m 1G -nic tap,ifname=tap5") // without a name
	qemu(t, m.proc, "13", "/usr/sbin/openvpn -name x", "tun0")
	qemu(t, m.proc, "14", "/usr/bin/qemu-system-x86_64 -name guest=db", "vnet3", "vnet4") // libvirt knows more
	want := map[string]nic{
		"vnet3": {"db", 0}, "vnet4": {"db", 2},
		"tap100i0": {"web", 0}, "tap100i1": {"web", 1},
		"tap8": {"mail-server", 0}, "tap9": {"mail-server", 1},
	}
	if got := m.nics(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Any user may run a program called qemu, and write any tap and any name on its command
// line. It is believed of a tap only if the kernel would let its user have that tap.
func TestMachinesOfOtherUsers(t *testing.T) {
	const user, docker = "0000000000000000", "00000000a80425fb" // capabilities: none, Docker's default
	m := machines{libvirt: t.TempDir(), proc: t.TempDir(), sys: t.TempDir()}
	for tap, owner := range map[string]string{"vnet1": "-1", "vnet2": "1000", "vnet3": "-1", "vnet4": "1001", "vnet5": "-1"} {
		put(t, filepath.Join(m.sys, tap, "owner"), owner+"\n")
	}
	const line = "/home/eve/qemu-system-x86_64 -name %s -netdev tap,ifname=%s"
	qemuOf(t, m.proc, "20", status(1000, user), fmt.Sprintf(line, "db", "vnet1"))     // a tap of root's
	qemuOf(t, m.proc, "21", status(1000, user), fmt.Sprintf(line, "own", "vnet2"))    // its own
	qemuOf(t, m.proc, "22", status(0, docker), fmt.Sprintf(line, "escaped", "vnet3")) // root in a container
	qemuOf(t, m.proc, "23", status(1000, user), "/home/eve/qemu-x -name db", "vnet4") // handed to it by the owner
	qemuOf(t, m.proc, "24", "Name:\tqemu\n", fmt.Sprintf(line, "odd", "vnet5"))
	put(t, filepath.Join(m.proc, "self", "status"), "")
	want := map[string]nic{"vnet2": {"own", 0}}
	if got := m.nics(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// The order of a machine's interfaces stays where one of them is not believed.
	qemuOf(t, m.proc, "25", status(1001, user), "/usr/bin/kvm -name mixed -netdev tap,ifname=vnet1 -netdev tap,ifname=vnet4")
	want["vnet4"] = nic{"mixed", 1}
	if got := m.nics(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// Root without the host's network has other taps of that name.
	if err := errors.Join(os.MkdirAll(filepath.Join(m.proc, "self", "ns"), 0o755), os.Symlink("net:[1]", filepath.Join(m.proc, "self", "ns", "net"))); err != nil {
		t.Fatal(err)
	}
	qemuOf(t, m.proc, "26", status(0, "000001ffffffffff"), fmt.Sprintf(line, "elsewhere", "vnet1"))
	if err := errors.Join(os.MkdirAll(filepath.Join(m.proc, "26", "ns"), 0o755), os.Symlink("net:[2]", filepath.Join(m.proc, "26", "ns", "net"))); err != nil {
		t.Fatal(err)
	}
	if got := m.nics(); got["vnet1"].machine != "" {
		t.Errorf("got %v", got["vnet1"])
	}
}

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
	m := machines{libvirt: t.TempDir(), proc: t.TempDir()}
	put(t, filepath.Join(m.libvirt, "db.xml"), domain)
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
		qemu(t, m.proc, "10", "qemu-system-x86_64 -name late", "tap1")
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
