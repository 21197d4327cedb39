// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"testing"

	"weir/internal/core/invalid"
)

func TestMask(t *testing.T) {
	for _, tt := range []struct {
		mask    Mask
		ok      bool
		classes int
	}{
		{UsualMask, true, 4096},
		{0x0000ffff, true, 4096},
		{0xffffffff, true, 4096},
		{0xfffe0000, true, 4096}, // 15 bits: 12 for the class
		{0xfff00000, true, 512},
		{0x000000f0, true, 2}, // 4 bits: the host and one more
		{0x00000070, false, 0},
		{0xff00ff00, false, 0}, // two runs
		{0, false, 0},
	} {
		err := tt.mask.Check()
		var mistake *invalid.Error
		if tt.ok != (err == nil) || (err != nil && !errors.As(err, &mistake)) {
			t.Errorf("%#x: Check() = %v, want ok = %v", uint32(tt.mask), err, tt.ok)
		}
		if err == nil && tt.mask.MaxClasses() != tt.classes {
			t.Errorf("%#x: %d classes, want %d", uint32(tt.mask), tt.mask.MaxClasses(), tt.classes)
		}
	}
}

func TestMaskValue(t *testing.T) {
	for _, tt := range []struct {
		mask  Mask
		class ClassID
		queue int
		want  uint32
	}{
		{UsualMask, 3, 0, 0x00030000},
		{UsualMask, 3, 3, 0x60030000},
		{UsualMask, 4095, 7, 0xefff0000},
		{0x0000ffff, 7, 1, 0x2007},
		{0x00fff000, 511, 7, 0x00fff000},
		{0x000000f0, 1, 5, 0x000000b0},
	} {
		got := tt.mask.Value(tt.class, tt.queue)
		if got != tt.want {
			t.Errorf("%#x: class %d, queue %d = %#x, want %#x", uint32(tt.mask), tt.class, tt.queue, got, tt.want)
		}
		class, queue := tt.mask.Split(got | ^uint32(tt.mask))
		if class != tt.class || queue != tt.queue {
			t.Errorf("%#x: %#x is class %d, queue %d, want %d, %d", uint32(tt.mask), got, class, queue, tt.class, tt.queue)
		}
		if tt.mask.Value(tt.class, 0)&^tt.mask.Classes() != 0 {
			t.Errorf("%#x: class %d is not within %#x", uint32(tt.mask), tt.class, tt.mask.Classes())
		}
	}
}

// A narrow mask has fewer numbers; who finds none is left out, and Build says so.
func TestNumberWithin(t *testing.T) {
	numbers := NumberWithin(4, nil, []string{HostKey, "a", "b", "c", "d"})
	if len(numbers) != 4 || numbers["c"] != 3 {
		t.Errorf("numbers within 4: %v", numbers)
	}
	if numbers = NumberWithin(4, map[string]ClassID{"old": 900, "a": 2}, []string{"a", "b"}); numbers["a"] != 2 || numbers["b"] != 1 || numbers["old"] != 0 {
		t.Errorf("after a wider mask: %v", numbers)
	}
}
