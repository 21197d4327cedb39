// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// ClassTarget is the place to which a program writes the class number.
type ClassTarget struct {
	Seal   bool   // skb->tc_index, as Weir has it; else skb->priority
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

// addOf attaches program to a device; others are loaded with it.
func (p *Programs) addOf(spec *ebpf.CollectionSpec, program string, ifindex int, variables map[string]uint32, others ...string) (*ebpf.Collection, error) {
	for name, value := range variables {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s: %w", name, err)
		}
	}
	objects, err := load(spec, append([]string{program}, others...)...)
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

func (t ClassTarget) variables() map[string]uint32 {
	v := map[string]uint32{meterVarLabHandle: t.Handle}
	if t.Seal {
		v[meterVarLabToSeal] = 1
	}
	return v
}

// Classify gives every packet that comes in by a device the same class.
func (p *Programs) Classify(ifindex int, class uint32, t ClassTarget) error {
	v := t.variables()
	v[meterVarLabClass] = class
	_, err := p.add(meterProgLabClassify, ifindex, v)
	return err
}

// Spread gives packets the class that their UDP port stands for: firstPort is
// class 1.
func (p *Programs) Spread(ifindex int, firstPort uint32, t ClassTarget) error {
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

// Stamp is when a packet arrived, and for when the scheduler that sent it had last set its
// timer, both in ns of CLOCK_MONOTONIC; Due is 0 if it never had.
type Stamp struct{ At, Due uint64 }

// Stamp drops whatever comes in by a device of the calling thread's namespace, and
// notes when, of as many packets as told. shaped is the index of the device that has the
// scheduler; where the host does not let the lab trace its kernel, Due is 0 throughout.
// The function returns the times.
func (p *Programs) Stamp(ifindex, shaped, packets int) (func() ([]Stamp, error), error) {
	objects, err := p.stamp(ifindex, shaped, packets, meterProgLabDue)
	if err == nil {
		var l link.Link
		if l, err = link.AttachTracing(link.TracingOptions{Program: objects.Programs[meterProgLabDue]}); err == nil {
			p.links = append(p.links, l)
		}
	} else {
		objects, err = p.stamp(ifindex, shaped, packets)
	}
	if err != nil {
		return nil, err
	}
	return func() ([]Stamp, error) {
		var stamps []Stamp
		for i := range uint32(packets) {
			var s Stamp
			if err := objects.Maps[meterMapLabStamps].Lookup(i, &s); err != nil {
				return nil, fmt.Errorf("read when packets came: %w", err)
			}
			if s.At == 0 {
				break
			}
			stamps = append(stamps, s)
		}
		return stamps, nil
	}, nil
}

// stamp attaches lab_stamp and loads others with it.
func (p *Programs) stamp(ifindex, shaped, packets int, others ...string) (*ebpf.Collection, error) {
	spec, err := loadMeter()
	if err != nil {
		return nil, err
	}
	spec.Maps[meterMapLabStamps].MaxEntries = uint32(packets)
	return p.addOf(spec, meterProgLabStamp, ifindex, map[string]uint32{meterVarLabShaped: uint32(shaped)}, others...)
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
