// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"weir/internal/core/plan"
)

// Bits that an agent has chosen are there for the next one; a file that is none of Weir's counts as
// none.
func TestKeptMask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	for _, mask := range []plan.Mask{0, 0xfffe0000, 0xf0, 0xf0, 0} {
		if err := KeepMask(dir, mask); err != nil {
			t.Fatal(err)
		}
		if got := KeptMask(dir); got != mask {
			t.Errorf("kept %#x, want %#x", uint32(got), uint32(mask))
		}
	}
	if err := KeepMask(dir, 0xf0); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"", "x", "0x5", "0x1ffffffff"} {
		if err := os.WriteFile(filepath.Join(dir, maskName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := KeptMask(dir); got != 0 {
			t.Errorf("%q: kept %#x, want none", text, uint32(got))
		}
	}
}
