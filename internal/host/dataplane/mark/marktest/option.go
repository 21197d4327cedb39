// SPDX-License-Identifier: Apache-2.0

package marktest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ways are how a process can set a socket option.
func Ways() []string { return []string{"call", "compat", "uring"} }

// Option has a process in a cgroup make a socket and set an option of it to 1 in one of
// these ways. kind is that of the socket: "packet", "xdp" or "udp". unix.EPERM means that it
// was refused.
func Option(t *testing.T, group, way, kind string, level, option int) error {
	t.Helper()
	return OptionIn(t, "/proc/self/ns/net", group, way, kind, level, option)
}

// OptionIn is Option in a network namespace.
func OptionIn(t *testing.T, netns, group, way, kind string, level, option int) error {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("echo $$ > %s/cgroup.procs && exec nsenter --net=%s %s", group, netns, exe))
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %s %d %d", optionEnv, "option", way, kind, level, option))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 1 {
		return unix.Errno(exit.ExitCode() - 1)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return nil
}

// optionEnv says which option a process is to set, and how.
const optionEnv = "WEIR_TEST_OPTION"

// setOption is the process of Option. It ends with the number of the error, and one more.
func setOption(how []string) {
	level, err1 := strconv.Atoi(how[3])
	option, err2 := strconv.Atoi(how[4])
	domain, ok := map[string]int{"packet": unix.AF_PACKET, "xdp": unix.AF_XDP, "udp": unix.AF_INET}[how[2]]
	kind := unix.SOCK_RAW
	if how[2] == "udp" {
		kind = unix.SOCK_DGRAM
	}
	fd, err3 := unix.Socket(domain, kind, 0)
	if err := errors.Join(err1, err2, err3); err != nil || !ok {
		fmt.Fprintln(os.Stderr, how, err)
		os.Exit(1)
	}
	set, ok := map[string]func(fd, level, option int, value int32) error{
		"call": func(fd, level, option int, value int32) error {
			return unix.SetsockoptInt(fd, level, option, int(value))
		},
		"compat": setByCompat, "uring": setByUring,
	}[how[1]]
	err := set(fd, level, option, 1)
	var errno unix.Errno
	switch {
	case err == nil && ok:
		os.Exit(0)
	case errors.As(err, &errno):
		os.Exit(1 + int(errno))
	}
	fmt.Fprintln(os.Stderr, how, err)
	os.Exit(1)
}

// setByUring sets a socket option by io_uring (Linux 6.7).
func setByUring(fd, level, option int, value int32) error {
	const (
		opCommand, commandSetsockopt = 46, 3
		offSQ, offCQ, offSQEs        = 0, 0x8000000, 0x10000000
		enterGetEvents               = 1
	)
	var params [120]byte
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(ring))
	at := func(offset int) uint32 { return binary.NativeEndian.Uint32(params[offset:]) }
	mapped := func(offset int64) ([]byte, error) {
		return unix.Mmap(int(ring), offset, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	}
	sq, err1 := mapped(offSQ)
	cq, err2 := mapped(offCQ)
	entry, err3 := mapped(offSQEs)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	put := func(offset int, v uint32) { binary.NativeEndian.PutUint32(entry[offset:], v) }
	entry[0] = opCommand
	put(4, uint32(fd))
	put(8, commandSetsockopt)
	put(16, uint32(level))
	put(20, uint32(option))
	put(44, 4) // length
	binary.NativeEndian.PutUint64(entry[48:], uint64(uintptr(unsafe.Pointer(&value))))
	const sqOffsets, cqOffsets, tail, array, cqes = 40, 80, 4, 24, 20
	binary.NativeEndian.PutUint32(sq[at(sqOffsets+array):], 0)
	binary.NativeEndian.PutUint32(sq[at(sqOffsets+tail):], 1)
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, enterGetEvents, 0, 0); errno != 0 {
		return errno
	}
	if result := int32(binary.NativeEndian.Uint32(cq[at(cqOffsets+cqes)+8:])); result < 0 {
		return unix.Errno(-result)
	}
	return nil
}
