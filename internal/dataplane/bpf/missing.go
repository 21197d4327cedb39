// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"

	"weir/internal/plan"
	"weir/internal/policy"
)

// Missing says what of the last Set somebody else took away or changed.
func (b *Backend) Missing() ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.obj == nil || len(b.have.Classes) == 0 {
		return nil, nil // the next Set reads the kernel
	}
	dev, err := b.conn.Lookup(b.device)
	if err != nil {
		return nil, err
	}
	if dev.Index != b.dev.Index {
		return []string{"the device is another one"}, nil
	}
	root, err := b.conn.Root(dev)
	if err != nil {
		return nil, err
	}
	if root.Kind != b.obj.kind {
		return []string{fmt.Sprintf("the root qdisc is %s", root)}, nil
	}
	lost, err := b.lost()
	if err != nil || len(lost) > 0 {
		b.broken = len(lost) > 0
		return lost, err
	}
	changed, err := b.changed()
	if err != nil {
		return nil, err
	}
	if len(changed) > 0 {
		b.have = plan.State{} // Set compares with the kernel
		return changed, nil
	}
	return b.marker.Missing(dev, b.have)
}

// lost are parts of the qdisc that cannot be put back under it: pins, without which
// the next agent would not find it, and what the qdisc itself keeps in maps.
func (b *Backend) lost() ([]string, error) {
	var lost []string
	dir, err := b.pins()
	if err != nil {
		return nil, err
	}
	pins := []string{b.obj.pinName()}
	for name := range b.obj.maps() {
		pins = append(pins, name)
	}
	for _, pin := range pins {
		if _, err := os.Lstat(filepath.Join(dir, pin)); errors.Is(err, os.ErrNotExist) {
			lost = append(lost, "the pin "+filepath.Join(dir, pin)+" is gone")
		}
	}
	for _, c := range b.have.Classes {
		if c.Group && !hasKey(b.obj.groups, uint32(c.ID)) {
			lost = append(lost, fmt.Sprintf("the calendars of group %d (%s) are gone", c.ID, c.Name))
		}
		for q := range c.Queues {
			if c.Queues[q].Interval != 0 && !hasKey(b.obj.holds, uint32(c.ID)*policy.MaxQueues+uint32(q)) {
				lost = append(lost, fmt.Sprintf("what waits in queue %d of class %d (%s) is gone", q, c.ID, c.Name))
			}
		}
	}
	return lost, nil
}

// hasKey says whether a hash map has an entry. Only its absence counts: a map that
// cannot be read has its own error elsewhere.
func hasKey(m *ebpf.Map, key uint32) bool {
	_, err := m.LookupBytes(key)
	return err == nil || !errors.Is(err, ebpf.ErrKeyNotExist)
}

// changed are the entries of the configuration's maps that are not what was written.
func (b *Backend) changed() ([]string, error) {
	var changed []string
	var l qdiscWeirLinkConfig
	if err := b.obj.link.Lookup(uint32(0), &l); err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", b.device, err)
	}
	if l != linkConfig(b.have.Link, b.weight) {
		changed = append(changed, "the configuration of the link was changed")
	}
	for _, c := range b.have.Classes {
		var cfg qdiscWeirClassConfig
		if err := b.obj.classes.Lookup(uint32(c.ID), &cfg); err != nil {
			return nil, fmt.Errorf("read class %d of %s: %w", c.ID, b.device, err)
		}
		switch {
		case cfg.ShareCost == 0:
			changed = append(changed, fmt.Sprintf("class %d (%s) is gone", c.ID, c.Name))
		case cfg != classConfig(c, b.have.Link):
			changed = append(changed, fmt.Sprintf("class %d (%s) was changed", c.ID, c.Name))
		}
	}
	return changed, nil
}
