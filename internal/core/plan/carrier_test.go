// SPDX-License-Identifier: Apache-2.0

package plan

import "testing"

// TestCarrier: each class and queue arrives as it was written, and of a packet that carries them in
// tc_index no bit of the mark matters.
func TestCarrier(t *testing.T) {
	for _, c := range []Carrier{{}, {Cilium: true}, {Mask: UsualMask}, {Mask: UsualMask, Cilium: true}} {
		for class := range ClassID(c.MaxClasses()) {
			for queue := range 8 {
				tcIndex, mark := c.Seal(class, queue), c.Mask.Value(class, queue)
				want := queue
				if !c.Queues() {
					want = 0
				}
				if got, q := c.Split(tcIndex, mark); got != class || q != want {
					t.Fatalf("%+v: class %d, queue %d arrive as %d, %d (%#x, %#x)", c, class, queue, got, q, tcIndex, mark)
				}
				if got, q := c.Split(tcIndex, ^mark); !c.Cilium && (got != class || q != want) {
					t.Fatalf("%+v: class %d, queue %d arrive as %d, %d where another product has written the mark", c, class, queue, got, q)
				}
				if c.Cilium && tcIndex&ciliumBits != 0 {
					t.Fatalf("%+v: class %d, queue %d set %#x of Cilium's bits", c, class, queue, tcIndex&ciliumBits)
				}
			}
		}
	}
	if got := (Carrier{}).Seal(5, 3); got != 0x80a3 {
		t.Errorf("the seal of class 5, queue 3 is %#x", got)
	}
	// Cilium may come at any time: what it reads then is no flag of its own.
	for class := range ClassID(narrowClasses) {
		if got := (Carrier{}).Seal(class, 0); got&ciliumBits != 0 {
			t.Fatalf("class %d: seal %#x", class, got)
		}
	}
}

// TestCarrierOfAnUnsealedPacket: without a mask it is the host's, whatever mark it has.
func TestCarrierOfAnUnsealedPacket(t *testing.T) {
	for tcIndex, want := range map[uint32]ClassID{0: 0, 0x123: 0, 0x7fff: 0} {
		if got, queue := (Carrier{}).Split(tcIndex, 0xffffffff); got != want || queue != 0 {
			t.Errorf("tc_index %#x: class %d, queue %d", tcIndex, got, queue)
		}
	}
	if got, queue := (Carrier{Mask: UsualMask}).Split(0x123, 0x60030001); got != 3 || queue != 3 {
		t.Errorf("with a mask: class %d, queue %d", got, queue)
	}
}
