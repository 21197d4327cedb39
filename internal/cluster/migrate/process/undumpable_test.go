// SPDX-License-Identifier: Apache-2.0

package process

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
)

func codes(list []migrate.PreflightFinding) (codes []string) {
	for _, f := range list {
		codes = append(codes, f.Code)
	}
	return codes
}

// TestUndumpable: what this process has open is named, until it is closed.
func TestUndumpable(t *testing.T) {
	raw := func(nr uintptr, a, b, c uintptr) (int, error) {
		fd, _, errno := unix.Syscall6(nr, a, b, c, 0, 0, 0)
		if errno != 0 {
			return -1, errno
		}
		return int(fd), nil
	}
	params := make([]byte, 120) // of struct io_uring_params
	for _, c := range []struct {
		code string // "" = CRIU can dump it
		name string
		open func() (int, error)
	}{
		{"io-uring", "io_uring", func() (int, error) { return ioUring(params) }},
		{"descriptor", "userfaultfd", func() (int, error) { return raw(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0) }},
		{"mptcp", "MPTCP", func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) }},
		{"socket", "the kernel's ciphers", func() (int, error) { return unix.Socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }},
		{"socket", "vsock", func() (int, error) { return unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }},
		{"device-open", "a block device", func() (int, error) { return unix.Open("/dev/vda", unix.O_RDONLY, 0) }},
		{"device-open", "kvm", func() (int, error) { return unix.Open("/dev/kvm", unix.O_RDONLY, 0) }},
		{"", "null", func() (int, error) { return unix.Open("/dev/null", unix.O_RDONLY, 0) }},
		{"", "a terminal", func() (int, error) { return unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY, 0) }},
		{"", "eventfd", func() (int, error) { return unix.Eventfd(0, 0) }},
		{"", "timerfd", func() (int, error) { return unix.TimerfdCreate(unix.CLOCK_MONOTONIC, 0) }},
		{"", "inotify", func() (int, error) { return unix.InotifyInit1(0) }},
		{"", "UDP", func() (int, error) { return unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0) }},
		{"", "packet", func() (int, error) { return unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0) }},
		{"", "ICMP", func() (int, error) { return unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := codes(Undumpable(os.Getpid()))
			fd, err := c.open()
			if err != nil {
				t.Skipf("skipped: this machine has none: %v", err)
			}
			during := codes(Undumpable(os.Getpid()))
			_ = unix.Close(fd)
			if len(before) > 0 || c.code == "" && len(during) > 0 || c.code != "" && !slices.Equal(during, []string{c.code}) {
				t.Errorf("found %q before, %q while it is open; want %q", before, during, c.code)
			}
			if after := codes(Undumpable(os.Getpid())); len(after) > 0 {
				t.Errorf("found %q afterwards", after)
			}
		})
	}
}

func ioUring(params []byte) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params[0])), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// TestNestedNamespace: a process below with a namespace of its own that CRIU does not nest.
func TestNestedNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: it needs root")
	}
	cmd := exec.Command("unshare", "--pid", "--fork", "sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	for deadline := time.Now().Add(5 * time.Second); len(Descendants(cmd.Process.Pid)) < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it has no child")
		}
	}
	if got := codes(Undumpable(cmd.Process.Pid)); !slices.Equal(got, []string{"nested-namespace"}) {
		t.Errorf("found %q", got)
	}
}

// startProgram starts a program that ends with the test.
func startProgram(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

// TestStrangers: a process that has entered a namespace is found, once it has stayed.
func TestStrangers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: it needs root")
	}
	own := startProgram(t, "unshare", "--net", "sleep", "600")
	until := func(ok func() bool) { t.Helper(); waitFor(t, ok) }
	until(func() bool { return namespaceOf(own, "net") != namespaceOf(os.Getpid(), "net") })
	look := func() []Stranger { return Strangers(own, "id-of-a-container", os.Getpid()) }
	if found := look(); len(found) > 0 {
		t.Errorf("alone: %v", found)
	}
	other := startProgram(t, "nsenter", "--net=/proc/"+strconv.Itoa(own)+"/ns/net", "sleep", "601")
	until(func() bool { return len(look()) > 0 })
	nobody := func(string) string { return "" }
	list := Staying(look, nobody, func() {})
	if len(list) != 1 || !strings.Contains(list[0].Msg, "process "+strconv.Itoa(other)+" (") || !strings.Contains(list[0].Msg, "network") {
		t.Errorf("%v", list)
	}
	if list := Staying(look, nobody, func() { _ = syscall.Kill(other, syscall.SIGKILL); until(func() bool { return len(look()) == 0 }) }); len(list) > 0 {
		t.Errorf("of a tool that has gone: %v", list)
	}
}
