// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/program"
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
	return program.Release(unix.MADV_DONTNEED)
}
