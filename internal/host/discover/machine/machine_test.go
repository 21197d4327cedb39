// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/host/discover/machine/machinetest"
)

func TestMachines(t *testing.T) {
	folder := t.TempDir()
	m := &Finder{LibvirtFolders: []string{folder}, Proc: t.TempDir()}
	machinetest.Put(t, filepath.Join(folder, "db.xml"), machinetest.Domain)
	machinetest.Put(t, filepath.Join(folder, "half.xml"), machinetest.Domain[:200])
	machinetest.QEMU(t, m.Proc, "10", "/usr/bin/kvm -id 100 -name web,debug-threads=on -netdev type=tap,id=net0,ifname=tap100i0 -netdev type=tap,ifname=tap100i1", "tap100i1", "tap100i0")
	machinetest.QEMU(t, m.Proc, "11", "/usr/libexec/qemu-kvm -name guest=mail-server,process=x --netdev bridge,id=a", "tap9", "tap8")
	machinetest.QEMU(t, m.Proc, "12", "/usr/bin/qemu-system-x86_64 -m 1G -nic tap,ifname=tap5") // without a name
	machinetest.QEMU(t, m.Proc, "13", "/usr/sbin/openvpn -name x", "tun0")
	machinetest.QEMU(t, m.Proc, "14", "/usr/bin/qemu-system-x86_64 -name guest=db", "vnet3", "vnet4") // libvirt knows more
	want := map[string]NIC{
		"vnet3": {"db", 0}, "vnet4": {"db", 2},
		"tap100i0": {"web", 0}, "tap100i1": {"web", 1},
		"tap8": {"mail-server", 0}, "tap9": {"mail-server", 1},
	}
	if got := m.Of(nil); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Any user may run a program called qemu, and write any tap and any name on its command
// line. It is believed of a tap only if the kernel would let its user have that tap.
func TestQEMUOfOtherUsers(t *testing.T) {
	const user, docker = "0000000000000000", "00000000a80425fb" // capabilities: none, Docker's default
	m := &Finder{Proc: t.TempDir(), Sys: t.TempDir()}
	for tap, owner := range map[string]string{"vnet1": "-1", "vnet2": "1000", "vnet3": "-1", "vnet4": "1001", "vnet5": "-1"} {
		machinetest.Put(t, filepath.Join(m.Sys, tap, "owner"), owner+"\n")
	}
	const line = "/home/eve/qemu-system-x86_64 -name %s -netdev tap,ifname=%s"
	machinetest.QEMUOf(t, m.Proc, "20", machinetest.Status(1000, user), fmt.Sprintf(line, "db", "vnet1"))     // a tap of root's
	machinetest.QEMUOf(t, m.Proc, "21", machinetest.Status(1000, user), fmt.Sprintf(line, "own", "vnet2"))    // its own
	machinetest.QEMUOf(t, m.Proc, "22", machinetest.Status(0, docker), fmt.Sprintf(line, "escaped", "vnet3")) // root in a container
	machinetest.QEMUOf(t, m.Proc, "23", machinetest.Status(1000, user), "/home/eve/qemu-x -name db", "vnet4") // handed to it by the owner
	machinetest.QEMUOf(t, m.Proc, "24", "Name:\tqemu\n", fmt.Sprintf(line, "odd", "vnet5"))
	machinetest.Put(t, filepath.Join(m.Proc, "self", "status"), "")
	want := map[string]NIC{"vnet2": {"own", 0}}
	if got := m.Of(nil); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// The order of a machine's interfaces stays where one of them is not believed.
	machinetest.QEMUOf(t, m.Proc, "25", machinetest.Status(1001, user), "/usr/bin/kvm -name mixed -netdev tap,ifname=vnet1 -netdev tap,ifname=vnet4")
	want["vnet4"] = NIC{"mixed", 1}
	if got := m.Of(nil); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	// Root without the host's network has other taps of that name.
	if err := errors.Join(os.MkdirAll(filepath.Join(m.Proc, "self", "ns"), 0o755), os.Symlink("net:[1]", filepath.Join(m.Proc, "self", "ns", "net"))); err != nil {
		t.Fatal(err)
	}
	machinetest.QEMUOf(t, m.Proc, "26", machinetest.Status(0, "000001ffffffffff"), fmt.Sprintf(line, "elsewhere", "vnet1"))
	if err := errors.Join(os.MkdirAll(filepath.Join(m.Proc, "26", "ns"), 0o755), os.Symlink("net:[2]", filepath.Join(m.Proc, "26", "ns", "net"))); err != nil {
		t.Fatal(err)
	}
	if got := m.Of(nil); got["vnet1"].Machine != "" {
		t.Errorf("got %v", got["vnet1"])
	}
}

// TestProxmox: devices of guests, of numbers without a guest, and of a host without Proxmox VE.
func TestProxmox(t *testing.T) {
	devices := []string{"tap100i0", "tap100i1", "veth101i0", "veth102i2", "tap7i0", "tap999i0", "veth1a2b3c4", "fwpr100p0"}
	m := &Finder{Proc: t.TempDir(), Proxmox: t.TempDir()}
	if got := m.Of(devices); len(got) != 0 {
		t.Errorf("without a guest: %v", got)
	}
	machinetest.Put(t, filepath.Join(m.Proxmox, "qemu-server", "100.conf"), "# name: comment\nboot: order=scsi0\nname: web\nnet0: virtio=BC:24:11:00:00:01,bridge=vmbr0\n\n[before]\nname: old\n")
	machinetest.Put(t, filepath.Join(m.Proxmox, "lxc", "101.conf"), "arch: amd64\nhostname: db\nnet0: name=eth0,bridge=vmbr0,type=veth\n")
	machinetest.Put(t, filepath.Join(m.Proxmox, "lxc", "102.conf"), "arch: amd64\n[snap]\nhostname: old\n")
	machinetest.Put(t, filepath.Join(m.Proxmox, "qemu-server", "7.conf"), "name: no\n") // numbers begin at 100
	want := map[string]NIC{"tap100i0": {"web", 0}, "tap100i1": {"web", 1}, "veth101i0": {"db", 0}, "veth102i2": {"ct102", 2}}
	if got := m.Of(devices); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// incus is what Incus 6 answers, cut down to the fields that package machine reads.
const incus = `{"type":"sync","status":"Success","status_code":200,"metadata":[
 {"name":"web","project":"default","type":"container","config":{"volatile.eth0.host_name":"veth1111","volatile.eth10.host_name":"veth3333","volatile.eth2.host_name":"veth2222","volatile.eth0.hwaddr":"00:16:3e:00:00:01"}},
 {"name":"web","project":"shop","type":"virtual-machine","config":{"volatile.eth0.host_name":"tap4444"}},
 {"name":"off","project":"default","config":{"volatile.eth0.hwaddr":"00:16:3e:00:00:02"}}]}`

// TestIncus: the daemon is asked for what is not known otherwise, and one that does not answer not
// again at once.
func TestIncus(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "unix.socket")
	m := &Finder{Proc: t.TempDir(), IncusSockets: []string{filepath.Join(dir, "none"), socket}}
	asked, answer := 0, http.StatusOK
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	daemon := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if want := "/1.0/instances?recursion=1&all-projects=true"; r.URL.String() != want {
			t.Errorf("asked %s, want %s", r.URL, want)
		}
		w.WriteHeader(answer)
		_, _ = w.Write([]byte(incus))
	})}
	go func() { _ = daemon.Serve(listener) }()
	t.Cleanup(func() { _ = daemon.Close() })
	want := map[string]NIC{"veth1111": {"web", 0}, "veth2222": {"web", 1}, "veth3333": {"web", 2}, "tap4444": {"shop_web", 0}}
	if got := m.Of([]string{"tap4444"}); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	machinetest.QEMU(t, m.Proc, "9", "/usr/bin/qemu-system-x86_64 -name own", "tap1")
	if got := m.Of([]string{"tap1"}); asked != 1 || got["tap1"] != (NIC{"own", 0}) {
		t.Errorf("asked %d times for what is known: %v", asked, got)
	}
	answer = http.StatusInternalServerError
	for range 3 {
		if got := m.Of([]string{"tap5"}); len(got) != 1 || asked != 2 {
			t.Errorf("asked %d times: %v", asked, got)
		}
	}
}

// TestDaemonThatHangs: it costs the host's other machines a second, once a minute.
func TestDaemonThatHangs(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "hangs")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, m := range map[string]*Finder{"incus": {Proc: t.TempDir(), IncusSockets: []string{socket}}, "libvirt": {Proc: t.TempDir(), LibvirtSockets: []string{socket}}} {
		begun := time.Now()
		if got := m.Of([]string{"tap1"}); len(got) > 0 || time.Since(begun) > 10*patience {
			t.Errorf("%s: %v after %v", name, got, time.Since(begun))
		}
		begun = time.Now()
		if m.Of([]string{"tap1"}); time.Since(begun) > patience/2 {
			t.Errorf("%s: asked again, for %v", name, time.Since(begun))
		}
	}
}

// TestLongDescriptions: a description beyond the bound is not read, of a file and of a daemon.
func TestLongDescriptions(t *testing.T) {
	whole := []byte(machinetest.Domain)
	_, inner, _ := strings.Cut(machinetest.Domain, "<domain ")
	inner, _, _ = strings.Cut("<domain "+inner, "</domstatus>")
	for name, parse := range map[string]func([]byte) (string, []string){"file": parseStatus, "daemon": parseDomain} {
		text := whole
		if name == "daemon" {
			text = []byte(inner)
		}
		if machine, _ := parse(text); machine != "db" {
			t.Errorf("%s: %q", name, machine)
		}
		long := append(text[:len(text):len(text)], bytes.Repeat([]byte(" "), bound.Machine)...)
		if machine, devices := parse(long); machine != "" || devices != nil {
			t.Errorf("%s of %d bytes is read: %q, %q", name, len(long), machine, devices)
		}
	}
}
