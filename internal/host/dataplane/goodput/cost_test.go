// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"encoding/binary"
	"testing"
	"time"
)

// What counting costs per packet, by the kernel's own repeated test run. In a VM in
// virtual time a nanosecond is an instruction:
//
//	go test -c ./internal/host/dataplane/goodput
//	vm/run --virtual-time --copy goodput.test -- ./goodput.test -test.run - -test.bench Goodput -test.benchtime 1x
func BenchmarkGoodput(b *testing.B) {
	p := newPrograms(b)
	// A machine that has just booted has other things to do.
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		if _, _, err := p.from.Benchmark(packet(4, 6, 1448), 5000, nil); err != nil {
			b.Fatal(err)
		}
	}
	for _, bench := range []struct {
		name string
		in   []byte
		back bool // goes into the workload
	}{
		{"a segment leaves", packet(4, 6, 1448), false},
		{"a segment leaves, IPv6", packet(6, 6, 1428), false},
		{"its acknowledgement comes", packet(4, 6, 0), true},
		{"a segment comes", packet(4, 6, 1448), true},
		{"its acknowledgement leaves", packet(4, 6, 0), false},
		{"a datagram leaves", packet(4, 17, 1448), false},
		{"a datagram comes", packet(4, 17, 1448), true},
		{"neither TCP nor UDP", packet(4, 1, 56), false},
	} {
		prog := p.from
		if bench.back {
			prog = p.to
		}
		b.Run(bench.name, func(b *testing.B) {
			// The least of several: the rest has other work of the kernel in it.
			least := time.Hour
			for range 20 {
				_, each, err := prog.Benchmark(bench.in, 5000, nil)
				if err != nil {
					b.Fatal(err)
				}
				least = min(least, each)
			}
			b.ReportMetric(float64(least.Nanoseconds()), "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// packet is one in an Ethernet frame, without checksums.
func packet(version int, protocol uint8, payload int) []byte {
	header := 14 + 20
	if version == 6 {
		header = 14 + 40
	}
	size := map[uint8]int{6: 20, 17: 8, 1: 8}[protocol]
	p := make([]byte, header+size+payload)
	if version == 6 {
		p[12], p[13], p[14], p[20] = 0x86, 0xdd, 0x60, protocol
		binary.BigEndian.PutUint16(p[18:], uint16(size+payload))
		p[22], p[38] = 0x20, 0x20
	} else {
		p[12], p[14], p[23] = 8, 0x45, protocol
		binary.BigEndian.PutUint16(p[16:], uint16(20+size+payload))
		copy(p[26:], []byte{10, 0, 0, 1, 192, 0, 2, 1})
	}
	binary.BigEndian.PutUint16(p[header:], 40000)
	binary.BigEndian.PutUint16(p[header+2:], 443)
	if protocol == 6 {
		p[header+12], p[header+13] = 5<<4, 0x10 // length of the header; ACK
	}
	return p
}
