// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// udpSendBuffer is what a UDP sender's socket may have under way. Packets that
// wait in a scheduler count against their sender's socket; with the usual 208 KiB
// it is held back once about 90 of them wait, and nothing is ever lost. The
// sysctl that would allow iperf3 more is the whole machine's, so the lab sets it
// on iperf3's own sockets.
const udpSendBuffer = 16 << 20

// bufferPatience is how long a client may take to open its sockets, and how often
// they are looked for.
const (
	bufferPatience = 5 * time.Second
	bufferTick     = 2 * time.Millisecond
)

// widen gives each of a client's UDP sockets its buffer as soon as it is there.
func widen(p *process, sockets int) {
	pid := p.cmd.Process.Pid
	handle, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has ended; what it printed says why
	}
	defer unix.Close(handle)
	done, deadline := map[string]bool{}, time.After(bufferPatience)
	for len(done) < sockets {
		for _, fd := range openSockets(pid, done) {
			if wide, err := widenOne(handle, fd); err == nil && wide {
				done[strconv.Itoa(fd)] = true
			}
		}
		select {
		case <-time.After(bufferTick):
		case <-p.done:
			return
		case <-deadline:
			return
		}
	}
}

// openSockets are the descriptors of a process that are sockets.
func openSockets(pid int, but map[string]bool) []int {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(folder)
	var list []int
	for _, e := range entries {
		to, err := os.Readlink(folder + "/" + e.Name())
		if fd, bad := strconv.Atoi(e.Name()); err == nil && bad == nil && strings.HasPrefix(to, "socket:") && !but[e.Name()] {
			list = append(list, fd)
		}
	}
	return list
}

// widenOne says whether the descriptor is a UDP socket, which has its buffer now.
func widenOne(handle, fd int) (bool, error) {
	mine, err := unix.PidfdGetfd(handle, fd, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(mine)
	if kind, err := unix.GetsockoptInt(mine, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_DGRAM {
		return false, err
	}
	return true, unix.SetsockoptInt(mine, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, udpSendBuffer)
}
