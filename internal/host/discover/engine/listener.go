// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

// listener returns the process that listens at a unix socket, 0 if it is not known: the address is
// another one, nothing listens, or the process is in a PID namespace that this one does not see.
func listener(ctx context.Context, address string) int {
	path, local := strings.CutPrefix(address, "unix://")
	if !local {
		return 0
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}
