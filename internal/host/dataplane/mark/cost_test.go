// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
)

// What marking costs per packet, by the kernel's own repeated test run. In a VM in
// virtual time a nanosecond is an instruction:
//
//	go test -c ./internal/host/dataplane/mark
//	vm/run --virtual-time --copy mark.test -- ./mark.test -test.run - -test.bench Rules -test.benchtime 1x
func BenchmarkRules(b *testing.B) {
	netnstest.New(b)
	ports := func(n int) Marking {
		if n == 0 {
			return Marking{}
		}
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{udp: %d}", 20000+i))
		}
		return marking(b, "["+strings.Join(list, ", ")+"]", "")
	}
	addresses := func(n int) Marking {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{src: 10.9.%d.0/24}", i))
		}
		return marking(b, "["+strings.Join(list, ", ")+"]", "")
	}
	dscp := uint8(46)
	// A machine that has just booted has other things to do.
	warm := loadAs(b, ingress.program, 1, plan.Carrier{}, ports(64))
	for until := time.Now().Add(3 * time.Second); time.Now().Before(until); {
		if _, _, err := warm.Benchmark(packet4(17), 5000, nil); err != nil {
			b.Fatal(err)
		}
	}
	for _, bench := range []struct {
		name    string
		marking Marking
		packet  []byte
	}{
		{"class alone", Marking{}, packet4(17)},
		{"DSCP alone", Marking{DSCP: &dscp}, packet4(17)},
		{"1 rule by port, UDP", ports(1), packet4(17)},
		{"8 rules by port, UDP", ports(8), packet4(17)},
		{"64 rules by port, UDP", ports(64), packet4(17)},
		{"1 rule by port, TCP", ports(1), packet4(6)},
		{"8 rules by port, TCP", ports(8), packet4(6)},
		{"64 rules by port, TCP", ports(64), packet4(6)},
		{"1 rule by port, IPv6", ports(1), packet6(17)},
		{"64 rules by port, IPv6", ports(64), packet6(17)},
		{"1 rule by prefix", addresses(1), packet4(17)},
		{"8 rules by prefix", addresses(8), packet4(17)},
		{"64 rules by prefix", addresses(64), packet4(17)},
	} {
		prog := loadAs(b, ingress.program, 1, plan.Carrier{}, bench.marking)
		b.Run(strings.ReplaceAll(bench.name, " ", "_"), func(b *testing.B) {
			// The least of several: the rest has other work of the kernel in it.
			least := time.Hour
			for range 20 {
				_, each, err := prog.Benchmark(bench.packet, 5000, nil)
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

func packet4(proto uint8) []byte {
	b := make([]byte, 14+20+20)
	b[12], b[14], b[23] = 8, 0x45, proto
	copy(b[26:], []byte{10, 0, 0, 1, 192, 0, 2, 1})
	binary.BigEndian.PutUint16(b[34:], 40000)
	binary.BigEndian.PutUint16(b[36:], 443)
	return b
}

func packet6(proto uint8) []byte {
	b := make([]byte, 14+40+20)
	b[12], b[13], b[14], b[20] = 0x86, 0xdd, 0x60, proto
	b[22], b[38] = 0x20, 0x20
	binary.BigEndian.PutUint16(b[54:], 40000)
	binary.BigEndian.PutUint16(b[56:], 443)
	return b
}
