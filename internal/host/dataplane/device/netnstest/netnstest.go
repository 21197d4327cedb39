// SPDX-License-Identifier: Apache-2.0

// Package netnstest gives a test network namespaces of its own, so that it can
// build devices and qdiscs on the real kernel without touching the host's.
//
// Example:
//
//	host := netnstest.Enter(t)               // from here on this is "the host"
//	box := netnstest.New(t)                  // a container's namespace
//	host.Run("ip", "link", "add", "v0", "type", "veth", "peer", "name", "eth0", "netns", box.Name)
//	box.Run("ip", "link", "set", "eth0", "up")
//
// Everything is removed when the test ends. A test that cannot have namespaces
// (it needs root) is skipped, with the reason.
package netnstest

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
)

// Netns is a named network namespace.
type Netns struct {
	Name    string
	t       testing.TB
	entered bool // the test's goroutine is inside
}

// Path by which the namespace can be entered.
func (n *Netns) Path() string { return filepath.Join("/run/netns", n.Name) }

// New makes a namespace with a random name, with its loopback device up.
func New(t testing.TB) *Netns {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: making network namespaces needs root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("skipped: needs the ip command (package iproute2)")
	}
	suffix := make([]byte, 5)
	if _, err := rand.Read(suffix); err != nil {
		t.Fatal(err)
	}
	n := &Netns{Name: "weirtc-" + hex.EncodeToString(suffix), t: t}
	command(t, "ip", "netns", "add", n.Name)
	t.Cleanup(func() { command(t, "ip", "netns", "del", n.Name) })
	n.Run("ip", "link", "set", "lo", "up")
	return n
}

// Enter makes a namespace and moves the test's goroutine into it until the test
// ends. Goroutines that the test starts are not in it.
func Enter(t testing.TB) *Netns {
	t.Helper()
	n := New(t)
	runtime.LockOSThread()
	home, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	target, err := netns.GetFromPath(n.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if err := netns.Set(target); err != nil {
		t.Fatal(err)
	}
	n.entered = true
	t.Cleanup(func() {
		n.entered = false
		defer home.Close()
		if err := netns.Set(home); err != nil {
			t.Error(err)
			return // the thread stays locked and ends with the goroutine
		}
		runtime.UnlockOSThread()
	})
	return n
}

// Run runs a command in the namespace and returns what it printed.
func (n *Netns) Run(args ...string) string {
	n.t.Helper()
	if n.entered {
		return command(n.t, args...) // saves a process
	}
	return command(n.t, append([]string{"ip", "netns", "exec", n.Name}, args...)...)
}

// Command prepares a command in the namespace.
func (n *Netns) Command(args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", n.Name}, args...)...)
}

// Alone has cmd run in a namespace of its own without a name, which ends with it.
// Every thread of that process is in it, which Enter cannot promise for goroutines
// that the test's program starts. Call it before cmd is started.
func Alone(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: making network namespaces needs root")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
}

func command(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// Options are data plane options with folders of the test's own: a temporary
// state folder and a BPF file system mounted for this test.
func Options(t testing.TB) dataplane.Options {
	t.Helper()
	mount := t.TempDir()
	if err := unix.Mount("bpf", mount, "bpf", 0, ""); err != nil {
		t.Skipf("skipped: cannot mount a BPF file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mount, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dataplane.Options{BPFFS: filepath.Join(mount, "weir"), StateDir: t.TempDir()}
}
