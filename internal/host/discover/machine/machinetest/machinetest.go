// SPDX-License-Identifier: Apache-2.0

// Package machinetest plays the programs that run machines, as far as package machine sees them.
package machinetest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Domain is libvirt's state of a machine as libvirt 11 writes it, cut down to the fields
// that package machine reads.
const Domain = `<!--
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

// Put writes a file, and the folders above it.
func Put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// QEMU makes a process of root's with a command line, and taps that it holds open.
func QEMU(t testing.TB, proc, pid, cmdline string, taps ...string) {
	t.Helper()
	QEMUOf(t, proc, pid, Status(0, "000001ffffffffff"), cmdline, taps...)
}

// Status returns /proc/PID/status of a process with a real uid and capabilities.
func Status(uid int, capabilities string) string {
	return fmt.Sprintf("Name:\tqemu\nUid:\t%d\t0\t0\t0\nCapEff:\t%s\n", uid, capabilities)
}

// QEMUOf makes a process with this /proc/PID/status, a command line, and taps that it holds open.
func QEMUOf(t testing.TB, proc, pid, status, cmdline string, taps ...string) {
	t.Helper()
	dir := filepath.Join(proc, pid)
	Put(t, filepath.Join(dir, "status"), status)
	Put(t, filepath.Join(dir, "cmdline"), strings.ReplaceAll(cmdline, " ", "\x00")+"\x00")
	for i, tap := range taps {
		fd := fmt.Sprint(20 + i)
		Put(t, filepath.Join(dir, "fdinfo", fd), "pos:\t0\nflags:\t0104002\niff:\t"+tap+"\n")
		if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/dev/net/tun", filepath.Join(dir, "fd", fd)); err != nil {
			t.Fatal(err)
		}
	}
}
