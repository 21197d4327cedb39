// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/host/dataplane/device"
)

// The example of docs/write-a-discipline.md, edf, is compiled with the rest of the kernel
// side, as the page says, and does what the page says.

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -cflags "-O2 -g -Wall -Wextra -Wno-unused-parameter -mcpu=v4 -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu" -no-global-types edf ../../../../bpf/qdisc.bpf.c -- -I ../../../../bpf -I ../../../../docs/examples/discipline -DWEIR_EXTRA_HEADER=<edf.h> "-DWEIR_EXTRA_ROW(ROW)=ROW(WEIR_EDF, edf, QUEUE)"

var edfSimulator = sync.OnceValues(func() (string, error) {
	return compileSimulator("weir-sim-edf", "-I", "../../../../bpf", "-I", "../../../../docs/examples/discipline",
		"-DWEIR_EXTRA_HEADER=<edf.h>", "-DWEIR_EXTRA_ROW(ROW)=ROW(WEIR_EDF, edf, QUEUE)")
})

// edfConfig is a class of discipline edf with this many queues.
func edfConfig(t *testing.T, id plan.ClassID, l plan.Link, queues int) qdiscWeirClassConfig {
	t.Helper()
	spec, err := loadEdf()
	must(t, err)
	cfg := classConfig(plan.Class{ID: id, Name: "edf", Weight: 1, Discipline: discipline.PQ, Isolation: discipline.NoIsolation, Queues: make([]plan.Queue, queues)}, l)
	cfg.Discipline = numbersOf[discipline.Name](spec.Types, "weir_discipline", "WEIR_")["edf"]
	if cfg.Discipline != disciplines()[discipline.LLQ]+1 {
		t.Fatalf("edf has number %d", cfg.Discipline)
	}
	return cfg
}

// TestPageShowsTheExample: the page has the header in full, which is short.
func TestPageShowsTheExample(t *testing.T) {
	header, err := os.ReadFile("../../../../docs/examples/discipline/edf.h")
	must(t, err)
	page, err := os.ReadFile("../../../../docs/write-a-discipline.md")
	must(t, err)
	if !bytes.Contains(page, header) {
		t.Error("docs/write-a-discipline.md shows another edf.h than docs/examples/discipline has; copy it there")
	}
	lines := bytes.Count(header, []byte("\n"))
	if lines >= 60 {
		t.Errorf("the example has %d lines; it is to be under 60", lines)
	}
	readme, err := os.ReadFile("../../../../docs/README.md")
	must(t, err)
	if says := fmt.Sprintf("a header of %d lines", lines); !bytes.Contains(readme, []byte(says)) {
		t.Errorf("docs/README.md does not say %q of the example", says)
	}
}

// TestEDF: calls, video and a backup, of which the last two take what they get.
func TestEDF(t *testing.T) {
	link := fairLink(portRate)
	run := func(d discipline.Name, video, backup int) phase {
		s := simulate(link)
		if d == "edf" {
			s.program = edfSimulator
			s.setLink()
			s.configure(flowClass, edfConfig(t, flowClass, link, 3))
		} else {
			s.setClass(port(d, make([]plan.Queue, 3)...))
		}
		s.send(traffic{id: flowClass, flow: 0, length: 200, interval: 1600 * time.Microsecond})
		s.send(traffic{id: flowClass, flow: 1, length: frames, window: video, delay: 50 * time.Microsecond})
		s.send(traffic{id: flowClass, flow: 2, length: frames, window: backup, delay: 50 * time.Microsecond})
		s.settle()
		s.run(portPhase)
		p := s.result(t)[1]
		for i, name := range []string{"calls", "video", "backup"} {
			got := p.flow(flowClass, i)
			t.Logf("%s, windows %d and %d: %s %.2f Mbit/s, waited %.1f ms at most", d, video, backup, name,
				got.sent*8/portPhase.Seconds()/1e6, float64(got.longest)/1e6)
		}
		return p
	}
	wait := func(p phase, flow int) float64 { return float64(p.flow(flowClass, flow).longest) / 1e6 }

	p := run("edf", 2, 5)
	for i, most := range []float64{5, 10, 20} {
		if wait(p, i) > most {
			t.Errorf("queue %d waited %.1f ms", i, wait(p, i))
		}
	}
	wantRates(t, p, portPhase, 0.02, 1, 3.5, 3.5)
	wantRates(t, run(discipline.PQ, 2, 5), portPhase, 0.01, 1, 7, 0)
	if p := run(discipline.FIFO, 2, 5); wait(p, 0) < 10 {
		t.Errorf("fifo: calls waited %.1f ms; the comparison shows nothing", wait(p, 0))
	}

	p = run("edf", 15, 45) // more than can be in time
	for i, delay := range []float64{5, 10, 20} {
		if late := wait(p, i) - delay; math.Abs(late-(wait(p, 2)-20)) > 2 || late < 10 {
			t.Errorf("queue %d is late by %.1f ms, queue 2 by %.1f", i, late, wait(p, 2)-20)
		}
	}
}

// TestPacketsByDeadline sends packets through the example in the kernel.
func TestPacketsByDeadline(t *testing.T) {
	onLink(t)
	spec, err := loadEdf()
	must(t, err)
	must(t, spec.Variables[edfVarCarrier].Set(where(plan.Carrier{Mask: plan.UsualMask}))) // sendTo says the queue by the mark
	o, err := loadAs(spec, "weirexample", nil)
	must(t, err)
	defer o.close()
	link := fairLink(100e3) // a packet takes 0.08 s
	must(t, o.link.Put(uint32(0), linkConfig(link, 1)))
	must(t, o.classes.Put(uint32(0), edfConfig(t, 0, link, 8)))
	must(t, o.announce([]uint32{ringLink, 0}))
	conn, err := device.Open()
	must(t, err)
	defer conn.Close()
	dev, err := conn.Lookup("up0")
	must(t, err)
	must(t, conn.SetRoot(dev, device.Qdisc{Kind: o.kind}))

	arrived := arrivals(t)
	// Queue 7 may take 640 ms, queue 0 only 5: it goes first, but for the packet
	// that is on its way and those that leave while we send.
	sendTo(t, 0, 7, 6)
	sendTo(t, 0, 0, 3)
	first := arrived(9)
	if before := slices.Index(first, 0); before < 1 || before > 3 || fmt.Sprint(first[before:before+3]) != "[0 0 0]" {
		t.Errorf("queues in the order %v", first)
	}
	// Who has waited for 700 ms is due before who has just come.
	sendTo(t, 0, 7, 15)
	time.Sleep(700 * time.Millisecond)
	sendTo(t, 0, 0, 3)
	second := arrived(18)
	if slices.Index(second, 0) != 15 {
		t.Errorf("queues in the order %v", second)
	}
	// What has entered leaves; not at once, though, and at any time the device may send
	// something of its own by queue 0, such as IPv6's multicast reports.
	sendTo(t, 0, 0, 1)
	wants := map[int]uint64{0: 7, 7: 21}
	entered := map[int]uint64{}
	for q := range wants {
		n, _, err := o.queue(0, q)
		must(t, err)
		entered[q] = n.EnqueuedPackets
	}
	time.Sleep(time.Second)
	for q, want := range wants {
		n, _, err := o.queue(0, q)
		must(t, err)
		if n.SentPackets < max(want, entered[q]) {
			t.Errorf("queue %d: %d had entered, %+v", q, entered[q], n)
		}
	}
	must(t, conn.DeleteRoot(dev))
}

const examplePort = 7007

// sendTo sends n packets of 1,000 bytes for a queue of a class, which say so
// themselves: the queue, or else the class.
func sendTo(t *testing.T, class plan.ClassID, q byte, n int) {
	t.Helper()
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(int32(plan.UsualMask.Value(class, int(q)))))
		})
		return errors.Join(err, failed)
	}}
	conn, err := dialer.Dial("udp4", fmt.Sprintf("10.9.0.2:%d", examplePort))
	must(t, err)
	defer conn.Close()
	packet := make([]byte, 1000-14-20-8)
	packet[0] = max(q, byte(class))
	for range n {
		_, err := conn.Write(packet)
		must(t, err)
	}
}

// arrivals listens at the other end of the link; the function that it returns
// waits for n packets of sendTo and returns what each says of itself.
func arrivals(t *testing.T) func(n int) []byte {
	t.Helper()
	up1, err := netlink.LinkByName("up1")
	must(t, err)
	const ip = unix.ETH_P_IP<<8&0xff00 | unix.ETH_P_IP>>8 // in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, ip)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: ip, Ifindex: up1.Attrs().Index}))
	must(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}))
	return func(n int) (from []byte) {
		t.Helper()
		frame := make([]byte, 2048)
		for len(from) < n {
			size, _, err := unix.Recvfrom(fd, frame, 0)
			must(t, err)
			if size == 1000 && binary.BigEndian.Uint16(frame[36:]) == examplePort {
				from = append(from, frame[42])
			}
		}
		return from
	}
}
