// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// EachSocket calls f with a descriptor of each socket of a process. Sockets that cannot be had,
// since they have just been closed or a right is missing, are left out.
func EachSocket(pid int, f func(fd int) error) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // it has just ended
	}
	defer unix.Close(handle)
	return eachDescriptor(pid, func(number, to string) error {
		n, err := strconv.Atoi(number)
		if err != nil || !strings.HasPrefix(to, "socket:") {
			return nil
		}
		fd, err := unix.PidfdGetfd(handle, n, 0)
		if err != nil {
			return nil
		}
		err = f(fd)
		closeSocket(fd)
		if err != nil {
			return fmt.Errorf("process %d: descriptor %d: %w", pid, n, err)
		}
		return nil
	})
}

// impatience is how long a close may wait.
const impatience = 100 * time.Millisecond

// closeSocket closes a socket of another process. If that has closed it meanwhile, or has ended,
// this is the socket's last close, which waits until what was written is sent, for as long as the
// process has said (SO_LINGER), or until a signal comes. SIGURG means nothing to a Go program that
// its runtime has not sent.
func closeSocket(fd int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, closed := unix.Gettid(), make(chan struct{})
	go func() {
		for {
			select {
			case <-closed:
				return
			case <-time.After(impatience):
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG)
			}
		}
	}()
	_ = unix.Close(fd)
	close(closed)
}
