// SPDX-License-Identifier: Apache-2.0

package device

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
)

// Claim is the right to steer the links of one network namespace. One process has
// it at a time, wherever its socket and its state are: two would number the same
// workloads differently and mark each other's packets.
type Claim struct{ dir *os.File }

// InUseError is wrapped by the error of TakeClaim where another process has it.
type InUseError struct{ PID int } // 0 = the kernel does not say

func (e *InUseError) Error() string {
	who := "another agent"
	if e.PID != 0 {
		who = fmt.Sprintf("another agent (process %d)", e.PID)
	}
	return who + " steers links of this network namespace; a namespace has one agent: " +
		"give that one this link as well, or stop it first (systemctl stop weir)"
}

// TakeClaim takes the claim for the calling thread's network namespace. It is a
// lock on a folder beside the pinned objects, which root alone can open and which
// every process of the namespace that could steer has in common; the kernel gives
// it back when the process ends. The error wraps *InUseError.
func TakeClaim(opts dataplane.Options) (*Claim, error) {
	inode, err := netnsInode("")
	if err != nil {
		return nil, fmt.Errorf("identify the network namespace: %w", err)
	}
	return takeClaim(opts, inode)
}

func takeClaim(opts dataplane.Options, inode uint64) (*Claim, error) {
	for {
		dir, err := openClaim(opts, inode)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			continue // its owner is just releasing it
		}
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			pid := lockOwner(dir)
			dir.Close()
			return nil, &InUseError{PID: pid}
		}
		if err != nil {
			dir.Close()
			return nil, explain("claim this network namespace", err)
		}
		if stands(dir) {
			return &Claim{dir}, nil
		}
		dir.Close() // locked too late: its owner has removed it meanwhile
	}
}

// openClaim opens the folder that the lock is on, and makes it if need be.
func openClaim(opts dataplane.Options, inode uint64) (*os.File, error) {
	path, err := PinDir(opts, filepath.Join(ofNetns(inode), "claim"))
	if err != nil {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, explain("claim this network namespace", err)
	}
	return dir, nil
}

// Release gives the claim back.
func (c *Claim) Release() {
	RemovePinDir(c.dir.Name())
	c.dir.Close()
}

// stands says whether the open folder is still the one at its path.
func stands(dir *os.File) bool {
	open, err := dir.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(dir.Name())
	return err == nil && os.SameFile(open, there)
}

// lockOwner is the process that has locked the file, 0 if that cannot be told.
func lockOwner(file *os.File) int {
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return 0
	}
	at := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer locks.Close()
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 812 00:1c:1043 0 EOF
		fields := strings.Fields(lines.Text())
		if len(fields) < 6 || fields[1] != "FLOCK" || fields[5] != at {
			continue
		}
		pid, _ := strconv.Atoi(fields[4]) // -1 for a process of another pid namespace
		return max(pid, 0)
	}
	return 0
}
