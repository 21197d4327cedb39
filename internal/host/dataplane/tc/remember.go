// SPDX-License-Identifier: Apache-2.0

package tc

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane/device"
)

// What HTB cannot hold is kept in a file per device. Ports are written before
// they are attached and struck out after they were detached, so that a mark
// never stays behind unknown when the agent dies in between.

func (b *Backend) memoryPath(dev device.Device) string {
	return filepath.Join(device.StateDir(b.opts), fmt.Sprintf("tc-%s-%d.json", dev.Name, dev.Index))
}

// recall reads what an earlier process was told; nothing if there was none.
func (b *Backend) recall(dev device.Device) (plan.State, error) {
	var state plan.State
	err := device.Recall(b.memoryPath(dev), &state)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.State{}, nil
	}
	if err != nil {
		b.log.Warn("cannot read what was set before, starting from the kernel's state", "err", err)
		return plan.State{}, nil
	}
	return state, nil
}

func (b *Backend) remember(dev device.Device, state plan.State) error {
	if reflect.DeepEqual(state, b.remembered) {
		return nil // Set is called often, and the disk may be a flash card
	}
	if err := device.Remember(b.memoryPath(dev), state); err != nil {
		return err
	}
	b.remembered = state
	return nil
}

func (b *Backend) forget(dev device.Device) error {
	return b.conn.Forget(b.opts, "tc", dev)
}
