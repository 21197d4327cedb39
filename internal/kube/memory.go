// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// settled is when the program has started and has read the node's pods.
const settled = 2 * time.Second

// giveBack returns the memory that only the start has needed. Most of it are pages of the program's
// own file: the library of claims registers the types of all groups of Kubernetes' API, which reads
// 20 MB of them once. Without a mapping they are plain cache, which the kernel takes when it needs
// it; a page that is read again is mapped again.
func giveBack(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(settled):
	}
	debug.FreeOSMemory()
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	for lines := bufio.NewScanner(bytes.NewReader(maps)); lines.Scan(); {
		var from, to uintptr
		var mode, offset, device, inode, path string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s %s %s %s %s", &from, &to, &mode, &offset, &device, &inode, &path); n < 7 || path != own || mode[1] == 'w' {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED); errno != 0 {
			return errno
		}
	}
	return nil
}
