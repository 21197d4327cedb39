// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"weir/internal/lab/scenario"
)

// Config of a meter.
type Config struct {
	FirstAddress uint32 // of workload 0 as a number, e.g. 0x0a4d0101; the others follow
	Workloads    int
	Length       time.Duration // of the measurement
	// Flows are counted by themselves too, in Rows rows behind those of the
	// workloads; several may share one.
	Flows []Flow
	Rows  int
	// Inward counts by the receivers' addresses, at the workloads' own ends.
	Inward bool
	// Payload counts what the receivers of TCP acknowledge, with a second program at each
	// device. Without it only UDP has payload.
	Payload bool
}

// Flow is the traffic of one workload to one port.
type Flow struct {
	Workload int
	Proto    uint8
	Port     uint16 // 0 if the protocol has none
	Row      int    // from 0
}

// Arrivals counts what arrives at one device.
type Arrivals struct {
	Start   time.Duration // CLOCK_MONOTONIC at which bucket 0 begins
	config  Config
	buckets int
	objects *ebpf.Collection
	links   []link.Link
}

// Now is CLOCK_MONOTONIC, the clock of the meter.
func Now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail with these arguments
	return time.Duration(ts.Nano())
}

// SleepUntil lets the thread sleep until Now is at. It makes no system call but
// one, so that the Go scheduler adds nothing to the measurement.
func SleepUntil(at time.Duration) {
	ts := unix.NsecToTimespec(int64(at))
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}

// New loads the program; its time begins now.
func New(c Config) (*Arrivals, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit on locked memory: %w", err)
	}
	spec, err := loadMeter()
	if err != nil {
		return nil, err
	}
	m := &Arrivals{Start: Now(), config: c, buckets: int(c.Length/scenario.Bucket) + 1}
	spec.Maps[meterMapLabReceived].MaxEntries = uint32(max(1, m.buckets*(c.Workloads+c.Rows)))
	inward := uint32(0)
	if c.Inward {
		inward = 1
	}
	for name, value := range map[string]any{
		meterVarLabFirstAddress: c.FirstAddress,
		meterVarLabWorkloads:    uint32(c.Workloads),
		meterVarLabBuckets:      uint32(m.buckets),
		meterVarLabStartNs:      uint64(m.Start),
		meterVarLabBucketNs:     uint64(scenario.Bucket),
		meterVarLabByFlow:       uint32(min(1, len(c.Flows))),
		meterVarLabInward:       inward,
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	programs := []string{meterProgLabMeter}
	if c.Payload {
		programs = append(programs, meterProgLabAcks)
	}
	if m.objects, err = load(spec, programs...); err != nil {
		return nil, err
	}
	for _, f := range c.Flows {
		key := meterLabFlow{Who: uint32(f.Workload), Port: f.Port, Proto: uint16(f.Proto)}
		if err := m.objects.Maps[meterMapLabFlows].Put(key, uint32(c.Workloads+f.Row)); err != nil {
			return nil, fmt.Errorf("count the flow to port %d: %w", f.Port, err)
		}
	}
	return m, nil
}

// load loads some programs of the object file and the maps.
func load(spec *ebpf.CollectionSpec, programs ...string) (*ebpf.Collection, error) {
	for name := range spec.Programs {
		if !slices.Contains(programs, name) {
			delete(spec.Programs, name)
		}
	}
	objects, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("load the lab's BPF program %s: %w", programs[0], err)
	}
	return objects, nil
}

// attach runs a program on what comes in by a device of the calling thread's
// network namespace.
func attach(program *ebpf.Program, ifindex int) (link.Link, error) {
	return attachAt(program, ifindex, ebpf.AttachTCXIngress)
}

// attachAt is attach for what comes in by a device, or what leaves by it.
func attachAt(program *ebpf.Program, ifindex int, way ebpf.AttachType) (link.Link, error) {
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: program, Attach: way})
	if errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("the lab needs a kernel with tcx (6.6 or later); run it in the VM (vm/run)")
	}
	if err != nil {
		return nil, fmt.Errorf("attach to device %d: %w", ifindex, err)
	}
	return l, nil
}

// Attach begins to count at a device; call it inside the device's namespace.
func (m *Arrivals) Attach(ifindex int) error {
	l, err := attach(m.objects.Programs[meterProgLabMeter], ifindex)
	if err != nil {
		return fmt.Errorf("meter: %w", err)
	}
	m.links = append(m.links, l)
	if !m.config.Payload {
		return nil
	}
	if l, err = attachAt(m.objects.Programs[meterProgLabAcks], ifindex, ebpf.AttachTCXEgress); err != nil {
		return fmt.Errorf("meter: %w", err)
	}
	m.links = append(m.links, l)
	return nil
}

// Timeline is what was received: [row][bucket], a row per workload and then one
// per row of flows.
type Timeline struct {
	Bytes   [][]uint64 `json:"bytes"` // on the wire
	Packets [][]uint64 `json:"packets"`
	// Payload is the bytes that the receiving programs could read: of UDP what arrived, of
	// TCP what the receiver acknowledged, if Config.Payload says so.
	Payload [][]uint64 `json:"payload"`
}

// Cut shortens all rows to a number of buckets.
func (t *Timeline) Cut(buckets int) {
	for _, rows := range [][][]uint64{t.Bytes, t.Packets, t.Payload} {
		for i, row := range rows {
			rows[i] = row[:min(buckets, len(row))]
		}
	}
}

// Read returns everything counted since the instant from, which becomes bucket
// 0. It is rounded to a whole bucket.
func (m *Arrivals) Read(from time.Duration) (Timeline, error) {
	skip := min(m.buckets, int((from-m.Start+scenario.Bucket/2)/scenario.Bucket))
	memory, err := m.objects.Maps[meterMapLabReceived].Memory()
	if err != nil {
		return Timeline{}, fmt.Errorf("map the meter's counters: %w", err)
	}
	const size = int(unsafe.Sizeof(meterLabBucket{}))
	row := make([]byte, m.buckets*size)
	var t Timeline
	for w := range m.config.Workloads + m.config.Rows {
		if _, err := memory.ReadAt(row, int64(w*len(row))); err != nil {
			return Timeline{}, fmt.Errorf("read the meter: %w", err)
		}
		bytes, packets, payload := make([]uint64, 0, m.buckets), make([]uint64, 0, m.buckets), make([]uint64, 0, m.buckets)
		for b := skip; b < m.buckets; b++ { // the fields of a meterLabBucket, in order
			at := row[b*size:]
			bytes = append(bytes, binary.NativeEndian.Uint64(at))
			packets = append(packets, binary.NativeEndian.Uint64(at[8:]))
			payload = append(payload, binary.NativeEndian.Uint64(at[16:]))
		}
		t.Bytes, t.Packets, t.Payload = append(t.Bytes, bytes), append(t.Packets, packets), append(t.Payload, payload)
	}
	return t, nil
}

// Align is the instant at or after t at which a bucket begins.
func (m *Arrivals) Align(t time.Duration) time.Duration {
	rest := (t - m.Start) % scenario.Bucket
	if rest == 0 {
		return t
	}
	return t + scenario.Bucket - rest
}

// Close stops counting.
func (m *Arrivals) Close() {
	for _, l := range m.links {
		l.Close()
	}
	m.objects.Close()
}
