// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"errors"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
)

// A packet socket sends nothing into an IFB of Weir's: no class has its packets, whatever mark
// and priority they carry. Without its program the IFB says that it misses it.
func TestSocketsSendNothingIntoAnIFB(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		b := newBed(t, kind, 1)
		backend := b.backend(false)
		want := b.state(100*mbit, plan.Class{Weight: 1})
		b.Set(backend, want)
		sent := func() (packets uint64) {
			for _, c := range b.Counters(backend).Classes {
				packets += c.EnqueuedPackets
			}
			return packets
		}
		before := sent()
		name := device.IFB{Link: "up0", Ingress: true}.Name()
		const tries = 100
		refused := sendInto(t, name, tries)
		if after := sent(); after > before+10 || refused != tries { // neighbour discovery comes by the link
			t.Errorf("of %d packets of a socket %d were refused and %d are in classes", tries, refused, after-before)
		}
		marker, err := mark.New(b.Opts, b.Log())
		if err != nil {
			t.Fatal(err)
		}
		defer marker.Close()
		dev, err := net.InterfaceByName(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, lost := range []int{0, 1} {
			if missing, err := backend.Missing(); err != nil || len(missing) != lost {
				t.Errorf("missing: %q, %v; want %d", missing, err, lost)
			}
			if err := marker.DetachLink(device.Device{Index: dev.Index}); err != nil {
				t.Fatal(err)
			}
		}
		b.Set(backend, want)
		if missing, err := backend.Missing(); err != nil || len(missing) > 0 {
			t.Errorf("missing: %q, %v", missing, err)
		}
	})
}

// sendInto sends frames with the mark of class 1 and counts those that the kernel refuses.
func sendInto(t *testing.T, name string, tries int) (refused int) {
	t.Helper()
	dev, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1<<16); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 100)
	frame[12] = 8
	for range tries {
		err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index, Protocol: 8})
		switch {
		case errors.Is(err, unix.ENOBUFS):
			refused++
		case err != nil:
			t.Fatal(err)
		}
	}
	return refused
}
