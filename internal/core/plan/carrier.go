// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"math/bits"
)

// Carrier says where packets carry their class and their queue: in skb->tc_index, as
// bpf/marking/seal.h has it, and in bits of skb->mark where Mask names some.
//
//	class 5, queue 3 -> tc_index 0x80a3, whatever the mark is
type Carrier struct {
	Mask   Mask // 0 = no bit of the mark is written or read
	Cilium bool // it is on this host, and the lowest five bits of tc_index are its
}

const (
	sealed        = 1 << 15 // WEIR_SEAL
	narrowClasses = 1 << 10 // that have room beside Cilium's bits
	ciliumBits    = 1<<5 - 1
)

// MaxClasses returns the number of classes that packets can carry, class 0 included.
func (c Carrier) MaxClasses() int {
	most := MaxClasses
	if c.Cilium {
		most = narrowClasses
	}
	if c.Mask != 0 { // what has no seal goes by the mark
		most = c.Mask.MaxClasses()
	}
	return most
}

// Queues reports whether packets can carry a queue.
func (c Carrier) Queues() bool { return !c.Cilium || c.Mask != 0 }

// Others returns the bits of tc_index that are not Weir's.
func (c Carrier) Others() uint32 {
	if c.Cilium {
		return ciliumBits
	}
	return 0
}

// Seal returns what tc_index says of a class and a queue. Beside Cilium that is 0x8000 for a class
// that only the mark can say.
func (c Carrier) Seal(class ClassID, queue int) uint32 {
	if c.Cilium {
		if class >= narrowClasses {
			return sealed
		}
		queue = 0
	}
	return sealed | uint32(class)&(narrowClasses-1)<<5 | uint32(class)>>7&0x18 | uint32(queue)&7
}

// Split returns the class and the queue that a packet carries.
func (c Carrier) Split(tcIndex, mark uint32) (ClassID, int) {
	class, queue := c.Mask.Split(mark)
	if tcIndex&sealed == 0 {
		return class, queue
	}
	said := ClassID(tcIndex>>5&(narrowClasses-1) | tcIndex&0x18&^c.Others()<<7)
	switch {
	case !c.Cilium:
		return said, int(tcIndex & 7)
	case said != 0 || c.Mask == 0:
		return said, queue
	}
	return class, queue
}

// Lane is a class and, above it, a queue, as programs have them (bpf/marking/seal.h).
func Lane(class ClassID, queue int) uint32 { return uint32(class) | uint32(queue)<<16 }

// Where returns what the programs are told: struct weir_carrier of bpf/marking/seal.h.
func (c Carrier) Where() (more, others, classes, shift, queueShift uint32) {
	if c.Mask != 0 {
		classes, shift, queueShift = c.Mask.Classes(), uint32(bits.TrailingZeros32(uint32(c.Mask))), uint32(c.Mask.QueueShift())
	}
	if c != (Carrier{}) {
		more = 1
	}
	return more, c.Others(), classes, shift, queueShift
}
