// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/core/delay"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
)

// delayKey is by what the kernel side finds the histogram of a class's queue, or with queue -1 of
// the class itself.
func delayKey(id plan.ClassID, queue int) uint32 {
	if queue < 0 {
		return uint32(id)
	}
	return plan.MaxClasses + uint32(id)*policy.MaxQueues + uint32(queue)
}

// addDelays makes the histograms of a class and of its queues, before the class is announced;
// anew says that the number was another class's. They stay with the object, as a group's
// wheels do.
func (o *object) addDelays(id plan.ClassID, queues int, anew bool) error {
	flags := ebpf.UpdateNoExist
	if anew {
		flags = ebpf.UpdateAny
	}
	for q := -1; q < queues; q++ {
		err := o.delays.Update(delayKey(id, q), qdiscWeirDelays{}, flags)
		if q >= 0 && errors.Is(err, unix.E2BIG) {
			return nil // further queues are not measured
		}
		if err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
			return fmt.Errorf("make the histogram of delays of class %d of %s: %w", id, o.kind, err)
		}
	}
	return nil
}

// delaysOf returns how long packets of a class, or of one of its queues, have waited.
func (o *object) delaysOf(id plan.ClassID, queue int) (*delay.Histogram, error) {
	var counted qdiscWeirDelays
	if err := o.delays.Lookup(delayKey(id, queue), &counted); err != nil {
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, nil
		}
		return nil, fmt.Errorf("read the delays of class %d of %s: %w", id, o.kind, err)
	}
	h := &delay.Histogram{}
	for bin, packets := range counted.Packets {
		h[bin] = uint64(packets)
	}
	return h, nil
}
