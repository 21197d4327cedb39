// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/core/plan"
)

// maskName is the file of the bits of the mark that an agent has chosen, in its state folder.
const maskName = "mark_mask"

// KeptMask returns the bits of the mark that an agent with this state folder has chosen last, 0 if
// it has chosen none.
func KeptMask(stateDir string) plan.Mask {
	text, err := safepath.ReadFile(filepath.Join(stateDir, maskName))
	if err != nil {
		return 0
	}
	bits, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32)
	if mask := plan.Mask(bits); err == nil && mask.Check() == nil {
		return mask
	}
	return 0
}

// KeepMask keeps the bits for the next start: with other ones the qdisc is replaced.
func KeepMask(stateDir string, mask plan.Mask) error {
	if mask == KeptMask(stateDir) {
		return nil
	}
	path := filepath.Join(stateDir, maskName)
	if mask == 0 {
		return atomicfile.Remove(path)
	}
	if err := safepath.Folder(stateDir, 0o700); err != nil {
		return err
	}
	if err := atomicfile.Write(path, fmt.Appendf(nil, "%#x\n", uint32(mask)), 0o600); err != nil {
		return fmt.Errorf("keep the chosen bits of the mark: %w", err)
	}
	return nil
}
