// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/base/nsthread"
	"weir/internal/core/plan"
	"weir/internal/host/dataplane/bpf"
	"weir/internal/host/dataplane/hosttest"
)

// BenchmarkIngress says what a packet costs from a server to a container, sender and receiver
// included: without Weir, with a pair, and with an IFB. In a VM in virtual time a nanosecond is an
// instruction:
//
//	go test -c ./internal/host/dataplane/ifb
//	vm/run --virtual-time --copy ifb.test -- ./ifb.test -test.run - -test.bench Ingress -test.benchtime 1x
func BenchmarkIngress(b *testing.B) {
	if err := bpf.Supported(); err != nil {
		b.Skipf("skipped: %v", err)
	}
	host := &bed{hosttest.New(b, 1), "bpf"}
	socket := func(space string) (fd int) {
		err := nsthread.InPath(space, func() (err error) {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	from, to := socket(host.Server.Path()), socket(host.Boxes[0].Path())
	if err := unix.Bind(to, &unix.SockaddrInet4{Port: 7000}); err != nil {
		b.Fatal(err)
	}
	at := &unix.SockaddrInet4{Port: 7000, Addr: [4]byte(net.ParseIP("10.77.0.1").To4())}
	// A packet at a time: no queue, and no batch that shares the cost of a softirq.
	run := func(packets int) time.Duration {
		payload, began := make([]byte, 200), time.Now()
		for range packets {
			if err := unix.Sendto(from, payload, 0, at); err != nil {
				b.Fatal(err)
			}
			if _, _, err := unix.Recvfrom(to, payload, 0); err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(began) / time.Duration(packets)
	}
	const packets = 2000
	measure := func(what string) {
		run(packets)
		b.ReportMetric(float64(run(packets)), what+"-ns/packet")
	}
	steered := func(what string) {
		backend := host.backend(false)
		host.Set(backend, host.state(1000*mbit, plan.Class{Weight: 1}))
		measure(what)
		if err := backend.Cleanup(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	measure("unsteered")
	steered("pair")
	withoutPairs(func() { steered("ifb") })
	b.ReportMetric(0, "ns/op")
}
