// SPDX-License-Identifier: Apache-2.0

package answers

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/mark/marktest"
)

// BenchmarkNote says what it costs a packet of a local TCP connection to be noted, by turns with
// and without the program. In a VM in virtual time a nanosecond is an instruction. At most 2 % are
// allowed:
//
//	go test -c ./internal/host/dataplane/mark/answers
//	vm/run --virtual-time --copy answers.test -- ./answers.test -test.run - -test.bench Note -test.benchtime 1x
func BenchmarkNote(b *testing.B) {
	netnstest.Enter(b)
	spec, err := loadAnswers()
	must(b, err)
	askers, err := ebpf.NewMap(spec.Maps[Map])
	must(b, err)
	defer askers.Close()
	programs, err := load(plan.Carrier{}, 0, askers, false)
	must(b, err)
	defer programs.Close()
	exchange := marktest.Exchange(b, [4]byte{127, 0, 0, 1})
	var with, without []float64
	for range 40 {
		without = append(without, marktest.Settled(exchange))
		l, err := delivered[0].attach(programs.WeirNoteIn)
		must(b, err)
		with = append(with, marktest.Settled(exchange))
		must(b, l.Close())
	}
	// The least of several: the rest has other work of the kernel in it.
	bare, noted := slices.Min(without), slices.Min(with)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(bare, "ns/packet")
	b.ReportMetric(noted-bare, "more-ns/packet")
	if part := (noted - bare) / bare; part > 0.02 {
		b.Errorf("the note takes %.1f %% of a packet", 100*part)
	}
}
