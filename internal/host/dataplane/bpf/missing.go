// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cilium/ebpf"

	"weir/internal/core/policy"
)

// Missing names the parts of the last Set that another program removed or changed.
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
	if root.Kind != b.obj.kind || b.away {
		return []string{"the root qdisc is " + root.Kind}, nil
	}
	b.seen = time.Now()
	if lost := b.lost(); len(lost) > 0 {
		b.broken = true
		return lost, nil
	}
	unpinned, err := b.unpinned()
	if err != nil {
		return nil, err
	}
	changed, err := b.changed()
	if err != nil {
		return nil, err
	}
	if changed = append(unpinned, changed...); len(changed) > 0 {
		return changed, nil
	}
	unmarked, err := b.marker.Missing(b.have)
	if err != nil {
		return nil, err
	}
	cgroupsReplaced, err := b.cgroupsReplaced()
	if err != nil {
		return nil, err
	}
	atLink, err := b.marker.MissingAtLink(dev, b.have, true)
	if err != nil {
		return nil, err
	}
	unmarking, err := b.missingCE()
	return slices.Concat(unmarked, cgroupsReplaced, atLink, unmarking), err
}

// cgroupsReplaced says whether the table of cgroups is another one than Set made.
func (b *Backend) cgroupsReplaced() ([]string, error) {
	if b.opts.IFB() {
		return nil, nil
	}
	want, err := b.marker.Sockets(b.have)
	if err != nil {
		return nil, err
	}
	have, err := b.obj.owned()
	if err != nil {
		return nil, fmt.Errorf("read the cgroups of %s: %w", b.device, err)
	}
	if maps.Equal(have, want.Owners) {
		return nil, nil
	}
	// A cgroup that has gone meanwhile is in the table until the next Set.
	for id, mark := range want.Owners {
		if former, ok := have[id]; !ok || former != mark {
			return []string{"the table of cgroups was changed"}, nil
		}
	}
	return nil, nil
}

// unpinned are the pins that are gone, without which the next agent would not find the
// qdisc.
func (b *Backend) unpinned() ([]string, error) {
	dir, err := b.pins()
	if err != nil {
		return nil, err
	}
	there, err := namesIn(dir)
	if err != nil {
		return nil, err
	}
	var gone []string
	for _, name := range b.obj.pinNames() {
		if !slices.Contains(there, name) {
			gone = append(gone, "the pin "+filepath.Join(dir, name)+" is gone")
		}
	}
	return gone, nil
}

// namesIn lists a folder, which may be gone.
func namesIn(folder string) ([]string, error) {
	f, err := os.Open(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(0)
}

// lost are parts of the qdisc that cannot be put back under it: what it keeps in maps.
func (b *Backend) lost() []string {
	var lost []string
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
	return lost
}

// hasKey says whether a hash map has an entry. Only its absence counts: a map that
// cannot be read has its own error elsewhere.
func hasKey(m *ebpf.Map, key uint32) bool {
	_, err := m.LookupBytes(key)
	return err == nil || !errors.Is(err, ebpf.ErrKeyNotExist)
}

// changed are the entries of the configuration's maps that are not what was written.
// It notes them for the next Set, since a plan does not show all of an entry.
func (b *Backend) changed() ([]string, error) {
	b.damaged = nil
	var changed []string
	var l qdiscWeirLinkConfig
	if err := b.obj.link.Lookup(uint32(0), &l); err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", b.device, err)
	}
	if l != b.linkConfig(b.have.Link, b.weight) {
		b.damaged = append(b.damaged, ringLink)
		changed = append(changed, "the configuration of the link was changed")
	}
	written, err := b.obj.configs(b.have)
	if err != nil {
		return nil, fmt.Errorf("read the classes of %s: %w", b.device, err)
	}
	for i := range b.have.Classes {
		c, cfg := &b.have.Classes[i], &written[i]
		if i < len(b.right) && *cfg == b.right[i] || *cfg == classConfig(*c, b.have.Link) {
			continue
		}
		b.damaged = append(b.damaged, uint32(c.ID))
		switch {
		case cfg.ShareCost == 0:
			changed = append(changed, fmt.Sprintf("class %d (%s) is gone", c.ID, c.Name))
		default:
			changed = append(changed, fmt.Sprintf("class %d (%s) was changed", c.ID, c.Name))
		}
	}
	if len(changed) == 0 {
		b.right = written
	}
	return changed, nil
}
