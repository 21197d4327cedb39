// SPDX-License-Identifier: Apache-2.0

package marktest

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// passEnv has the program make a socket and pass it on.
const passEnv = "WEIR_TEST_PASS"

// SocketOf returns a socket that a process in a cgroup has made, and which has ended since.
func SocketOf(t *testing.T, group string) *os.File {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "theirs")
	defer unix.Close(pair[0])
	cmd := exec.Command("sh", "-c", "echo $$ >"+group+"/cgroup.procs && exec "+exe)
	cmd.Env = append(os.Environ(), passEnv+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a socket: %v\n%s", err, out)
	}
	theirs.Close()
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), rights, 0)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "socket")
}

// pass makes a socket and sends it to descriptor 3.
func pass() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendmsg(3, []byte{0}, unix.UnixRights(fd), nil, 0)
}
