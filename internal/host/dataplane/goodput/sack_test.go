// SPDX-License-Identifier: Apache-2.0

package goodput

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device/netnstest"
)

// programs are those of one port, to be handed packets one by one.
type programs struct {
	t        testing.TB
	meter    *Meter
	from, to *ebpf.Program
}

// programClass is that of the port.
const programClass = 3

func newPrograms(t testing.TB) *programs {
	t.Helper()
	netnstest.New(t)
	m, err := New(plan.Carrier{})
	if errors.Is(err, dataplane.ErrNoSupport) {
		t.Skip("skipped:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if err := m.count([]plan.ClassID{programClass}); err != nil {
		t.Fatal(err)
	}
	loaded, err := m.load(plan.Port{Device: "v0", Ifindex: 1}, programClass)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(loaded.close)
	return &programs{t, m, loaded.From, loaded.To}
}

// sends hands down a segment of the workload.
func (p *programs) sends(seq uint32, payload int) {
	p.t.Helper()
	if _, _, err := p.from.Test(segment(seq, payload)); err != nil {
		p.t.Fatal(err)
	}
}

func segment(seq uint32, payload int) []byte {
	in := packet(4, 6, payload)
	binary.BigEndian.PutUint32(in[38:], seq)
	return in
}

// acknowledges hands down what the far end says. It returns the payload that counts as delivered
// so far.
func (p *programs) acknowledges(stamp bool, ack uint32, blocks ...uint32) uint64 {
	p.t.Helper()
	if _, _, err := p.to.Test(acknowledgement(stamp, ack, blocks...)); err != nil {
		p.t.Fatal(err)
	}
	return p.read().Acked
}

func (p *programs) read() Counts {
	p.t.Helper()
	all, err := p.meter.Read()
	if err != nil {
		p.t.Fatal(err)
	}
	return all[programClass].Counts
}

// acknowledgement is the far end's; blocks are pairs of SACK.
func acknowledgement(stamp bool, ack uint32, blocks ...uint32) []byte {
	var options []byte
	if stamp {
		options = append(options, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2)
	}
	if len(blocks) > 0 {
		options = append(options, 1, 1, 5, byte(2+4*len(blocks)))
		for _, edge := range blocks {
			options = binary.BigEndian.AppendUint32(options, edge)
		}
	}
	in := append(packet(4, 6, 0), options...)
	// It goes the other way.
	copy(in[26:], []byte{192, 0, 2, 1, 10, 0, 0, 1})
	binary.BigEndian.PutUint16(in[34:], 443)
	binary.BigEndian.PutUint16(in[36:], 40000)
	binary.BigEndian.PutUint32(in[42:], ack)
	binary.BigEndian.PutUint16(in[16:], uint16(len(in)-14))
	in[46] = byte(5+len(options)/4) << 4
	return in
}

// Where two CPUs carry one flow at the same time, its payload counts once: the far end's kernel
// acknowledges from its softirq and from the process that reads.
func TestTwoCPUsCountOnce(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("skipped: this machine has one CPU")
	}
	const step, steps = 1000, 5000
	p := newPrograms(t)
	p.sends(0, 0)
	p.acknowledges(false, 0)
	var arrived atomic.Int64
	var cpus sync.WaitGroup
	for range 2 {
		cpus.Go(func() {
			for i := int64(1); i <= steps; i++ {
				leaves, comes := segment(uint32(i-1)*step, step), acknowledgement(false, uint32(i)*step)
				arrived.Add(1)
				for arrived.Load() < 2*i { // the other is as far
				}
				if _, _, err := p.from.Test(leaves); err != nil {
					t.Error(err)
				}
				if _, _, err := p.to.Test(comes); err != nil {
					t.Error(err)
				}
			}
		})
	}
	cpus.Wait()
	want := Counts{Sent: step * steps, Again: step * steps, Acked: step * steps}
	if got := p.read(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSACK: bytes that arrived behind a hole count then, and once; reported by options
// that are not understood, they count when the hole is filled.
func TestSACK(t *testing.T) {
	for _, stamp := range []bool{false, true} {
		p := newPrograms(t)
		for seq := uint32(1000); seq < 9000; seq += 1000 {
			p.sends(seq, 1000)
		}
		for _, step := range []struct {
			what   string
			ack    uint32
			blocks []uint32
			want   uint64
		}{
			{"the first that is seen", 1000, nil, 0},
			{"in order", 2000, nil, 1000},
			{"behind a hole", 2000, []uint32{3000, 4000}, 2000},
			{"two holes", 2000, []uint32{5000, 6000, 3000, 4000}, 3000},
			{"the same again", 2000, []uint32{3000, 4000, 5000, 6000}, 3000},
			{"the first hole is filled", 4000, []uint32{5000, 6000}, 4000},
			{"a duplicate", 4000, []uint32{2000, 3000, 5000, 6000}, 4000},
			{"a block that says nothing", 4000, []uint32{5000, 5000}, 4000},
			{"all is filled", 9000, nil, 8000},
		} {
			if got := p.acknowledges(stamp, step.ack, step.blocks...); got != step.want {
				t.Errorf("time stamp %v, %s: %d bytes delivered, want %d", stamp, step.what, got, step.want)
			}
		}
	}
}
