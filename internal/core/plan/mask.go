// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math/bits"

	"weir/internal/core/invalid"
)

// Mask holds the bits of skb->mark that say where a packet belongs, where a user gives Weir some:
// its three highest the queue inside the class, the bits below them the class. 0 is none.
//
//	mark 0x60030001 under 0xffff0000 -> queue 3, class 3; 0x0001 belongs to another program
type Mask uint32

// UsualMask has room for all classes and queues, and leaves the lower 16 bits to others (kube-proxy
// uses 0x4000 and 0x8000).
const UsualMask Mask = 0xffff0000

// queueBits is the number of bits that number policy.MaxQueues queues.
const queueBits = 3

// LeastMaskBits is how many bits a mask has at least.
const LeastMaskBits = queueBits + 1

// Check refuses a mask that is not one run of bits, or that leaves no bit for
// the class. The error is a *invalid.Error.
func (m Mask) Check() error {
	width := bits.OnesCount32(uint32(m))
	fail := func(msg, remedy string) error {
		return &invalid.Error{Field: "mark_mask", Value: fmt.Sprintf("%#x", uint32(m)), Msg: msg, Remedy: remedy}
	}
	switch {
	case m == 0 || bits.LeadingZeros32(uint32(m))+width+bits.TrailingZeros32(uint32(m)) != 32:
		return fail("its bits must be next to each other", fmt.Sprintf("write one such as %#x", uint32(UsualMask)))
	case width < LeastMaskBits:
		return fail(fmt.Sprintf("%d bits are too few, the queue takes %d and the class at least 1", width, queueBits),
			fmt.Sprintf("give it %d bits or more; %d number all %d classes, as in %#x",
				LeastMaskBits, queueBits+bits.Len(MaxClasses-1), MaxClasses, uint32(UsualMask)))
	}
	return nil
}

// ClassBits returns the number of bits that are left for the class number.
func (m Mask) ClassBits() int { return bits.OnesCount32(uint32(m)) - queueBits }

// MaxClasses returns the number of classes that the mask can number, class 0 included;
// never above the constant of this name.
func (m Mask) MaxClasses() int { return min(1<<m.ClassBits(), MaxClasses) }

// Classes returns the bits of the class number.
func (m Mask) Classes() uint32 {
	return (1<<m.ClassBits() - 1) << bits.TrailingZeros32(uint32(m))
}

// QueueShift returns the distance of the queue's bits from bit 0 of the mark.
func (m Mask) QueueShift() int { return bits.TrailingZeros32(uint32(m)) + m.ClassBits() }

// Value returns the class and the queue at their places in the mask.
func (m Mask) Value(class ClassID, queue int) uint32 {
	if m == 0 {
		return 0
	}
	return (uint32(queue)<<m.ClassBits() | uint32(class)) << bits.TrailingZeros32(uint32(m)) & uint32(m)
}

// Split returns the class and the queue that a mark names.
func (m Mask) Split(mark uint32) (class ClassID, queue int) {
	if m == 0 {
		return 0, 0
	}
	field := (mark & uint32(m)) >> bits.TrailingZeros32(uint32(m))
	return ClassID(field & (1<<m.ClassBits() - 1)), int(field >> m.ClassBits())
}
