// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Target is the place to which a program writes the class number.
type Target struct {
	Mark   bool   // skb->mark, else skb->priority
	Shift  uint32 // of the class within the mark
	Handle uint32 // the upper half of the priority, e.g. 0x10000 for a qdisc 1:
}

// Programs are the attached helpers of peers and cost measurements. They stay
// until Close.
type Programs struct {
	objects []*ebpf.Collection
	links   []link.Link
}

func (p *Programs) add(program string, ifindex int, variables map[string]uint32) (*ebpf.Collection, error) {
	spec, err := loadMeter()
	if err != nil {
		return nil, err
	}
	return p.addOf(spec, program, ifindex, variables)
}

func (p *Programs) addOf(spec *ebpf.CollectionSpec, program string, ifindex int, variables map[string]uint32) (*ebpf.Collection, error) {
	for name, value := range variables {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	objects, err := load(spec, program)
	if err != nil {
		return nil, err
	}
	p.objects = append(p.objects, objects)
	l, err := attach(objects.Programs[program], ifindex)
	if err != nil {
		return nil, err
	}
	p.links = append(p.links, l)
	return objects, nil
}

func (t Target) variables() map[string]uint32 {
	v := map[string]uint32{meterVarLabShift: t.Shift, meterVarLabHandle: t.Handle}
	if t.Mark {
		v[meterVarLabToMark] = 1
	}
	return v
}

// Classify gives every packet that comes in by a device the same class.
func (p *Programs) Classify(ifindex int, class uint32, t Target) error {
	v := t.variables()
	v[meterVarLabClass] = class
	_, err := p.add(meterProgLabClassify, ifindex, v)
	return err
}

// Spread gives packets the class that their UDP port stands for: firstPort is
// class 1.
func (p *Programs) Spread(ifindex int, firstPort uint32, t Target) error {
	v := t.variables()
	v[meterVarLabFirstPort] = firstPort
	_, err := p.add(meterProgLabSpread, ifindex, v)
	return err
}

// Sink counts and drops whatever comes in by a device of the calling thread's
// namespace. The function returns how many packets that were so far.
func (p *Programs) Sink(ifindex int) (func() (uint64, error), error) {
	objects, err := p.add(meterProgLabSink, ifindex, nil)
	if err != nil {
		return nil, err
	}
	return func() (uint64, error) {
		var b meterLabBucket
		if err := objects.Maps[meterMapLabSunk].Lookup(uint32(0), &b); err != nil {
			return 0, fmt.Errorf("read the sink: %w", err)
		}
		return b.Packets, nil
	}, nil
}

// Stamp drops whatever comes in by a device of the calling thread's namespace, and
// notes when, of as many packets as told. The function returns the times.
func (p *Programs) Stamp(ifindex, packets int) (func() ([]uint64, error), error) {
	spec, err := loadMeter()
	if err != nil {
		return nil, err
	}
	spec.Maps[meterMapLabStamps].MaxEntries = uint32(packets)
	objects, err := p.addOf(spec, meterProgLabStamp, ifindex, nil)
	if err != nil {
		return nil, err
	}
	return func() ([]uint64, error) {
		var times []uint64
		for i := range uint32(packets) {
			var at uint64
			if err := objects.Maps[meterMapLabStamps].Lookup(i, &at); err != nil {
				return nil, fmt.Errorf("read when packets came: %w", err)
			}
			if at == 0 {
				break
			}
			times = append(times, at)
		}
		return times, nil
	}, nil
}

// Close detaches all of them.
func (p *Programs) Close() {
	for _, l := range p.links {
		l.Close()
	}
	for _, o := range p.objects {
		o.Close()
	}
	p.links, p.objects = nil, nil
}
