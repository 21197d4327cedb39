// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"errors"

	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/mark/group"
)

// Holds reports whether the cgroup at a path may not send past the qdisc; true of one that is gone.
func (b Refusals) Holds(path string) (bool, error) {
	folder, err := group.Open(path)
	if errors.Is(err, dataplane.ErrNoDevice) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer folder.Close()
	return b.IsBound(folder.ID)
}
