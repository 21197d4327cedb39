// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/cgroup"
)

// forge sends COUNT datagrams with a MARK that it sets itself, by a packet socket on
// DEVICE or an ordinary one: what CAP_NET_RAW permits, which Docker gives to every
// container. It prints a line when it is done.
func forge(args []string) error {
	mark, err := strconv.ParseUint(args[1], 0, 32)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	send, err := forger(args[0], int(mark))
	for range count {
		if err == nil {
			err = send()
		}
		time.Sleep(time.Millisecond)
	}
	if err == nil {
		fmt.Println("done")
	}
	return err
}

// forger opens the socket; "" as the device means an ordinary one.
func forger(device string, mark int) (send func() error, err error) {
	domain, kind := unix.AF_PACKET, unix.SOCK_RAW
	if device == "" {
		domain, kind = unix.AF_INET, unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(domain, kind, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, mark); err != nil {
		return nil, err
	}
	to := serverAt(0)
	if device == "" {
		return func() error {
			return unix.Sendto(fd, make([]byte, payload), 0, &unix.SockaddrInet4{Port: udpPort, Addr: [4]byte(to.ip)})
		}, nil
	}
	dev, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	packet := datagram(endpoint{workloadAt(0, 3).ip, dev.HardwareAddr}, to)
	return func() error { return unix.Sendto(fd, packet, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index}) }, nil
}

// A process with the host's network, in the cgroup of a workload, marks its packets as
// another workload's. They are counted as its own all the same.
func TestForgedMarks(t *testing.T) {
	if cgroup.Read().Root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	b := newBed(t, 1, 1)
	b.measure(0, 2)
	batch := newGroup(t, "e2e-batch")
	b.addNewcomer(b.host, b.nets[0].bridge, 3, batch)
	b.configure("")
	a := b.start()
	b.steered(a)
	b.weir("attach", "batch", "--cgroup", batch.folder)
	a.inState("batch", "active", 1)
	sent := func(name string) (class int, packets uint64) {
		t.Helper()
		w, err := a.Workload(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range w.Links {
			packets += l.SentPackets
		}
		return int(w.Class), packets
	}
	class, _ := sent("w1")
	const count = 200
	for _, device := range []string{b.nets[0].bridge, ""} {
		for owner, in := range map[string]*group{"batch": batch, "host": nil} {
			_, before := sent(owner)
			_, others := sent("w1")
			p := launchIn(in, b.host, "forge", device, fmt.Sprint(class<<16), fmt.Sprint(count))
			if line, err := p.out.ReadString('\n'); err != nil {
				t.Fatalf("%q, %v", line, err)
			}
			await(t, 10*time.Second, fmt.Sprintf("%d packets (device %q) counted as those of %s", count, device, owner), func() error {
				if _, now := sent(owner); now < before+count {
					_, theirs := sent("w1")
					return fmt.Errorf("%d are, and %d as those of w1", now-before, theirs-others)
				}
				return nil
			})
			if _, now := sent("w1"); now > others+count/10 {
				t.Errorf("device %q: %d packets of %s are counted as those of w1", device, now-others, owner)
			}
		}
	}
}
