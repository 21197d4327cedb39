// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"weir/internal/core/plan"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// What the qdisc has no room for (long names) or does not need of a class (the rules
// of its queues, code points) is in the marking programs as constants, from which it cannot be
// read back. It is kept as text in a map of its own, pinned with the qdisc's, so
// that an agent that starts finds the whole state in force and reports no more than
// its own changes. No program looks there.
const (
	insidePin = "inside"
	// insideSize is how long a class's text may be. A longer one is not kept: the
	// next agent reports it as changed.
	insideSize = 8192
)

type (
	insideClass struct {
		Name      string               `json:"name,omitempty"` // if the qdisc has not all of it
		DSCP      *uint8               `json:"dscp,omitempty"`
		Isolation discipline.Isolation `json:"isolation,omitempty"`
		Queues    []insideQueue        `json:"queues,omitempty"`
	}
	insideQueue struct {
		Name  string `json:"name"`
		DSCP  *uint8 `json:"dscp,omitempty"`
		Match string `json:"match,omitempty"` // as classify.ParseMatches reads it
	}
)

// insideOf is the text for a class, nil if there is nothing to keep.
func insideOf(c plan.Class) []byte {
	kept := insideClass{DSCP: c.DSCP, Isolation: c.Isolation}
	if len(c.Name) >= len(qdiscWeirClassConfig{}.Name) {
		kept.Name = c.Name
	}
	for _, q := range c.Queues {
		var matches []string
		for _, m := range q.Match {
			matches = append(matches, m.String())
		}
		queue := insideQueue{Name: q.Name, DSCP: q.DSCP}
		if matches != nil {
			queue.Match = "[" + strings.Join(matches, ", ") + "]"
		}
		kept.Queues = append(kept.Queues, queue)
	}
	if kept.Name == "" && kept.DSCP == nil && kept.Isolation == discipline.ByFlow && kept.Queues == nil {
		return nil
	}
	text, err := json.Marshal(kept)
	if err != nil || len(text) > insideSize {
		return nil
	}
	return text
}

// fill puts a text's part into the class that was read from the qdisc. What does
// not go with it, or cannot be read, is as if nothing had been kept.
func fill(c *plan.Class, text []byte) {
	var kept insideClass
	if json.Unmarshal(text, &kept) != nil || len(kept.Queues) != len(c.Queues) {
		return
	}
	matches := make([][]classify.Match, len(kept.Queues))
	for i, q := range kept.Queues {
		if q.Match == "" {
			continue
		}
		var err error
		if matches[i], err = classify.ParseMatches(q.Match); err != nil {
			return
		}
	}
	c.Name, c.DSCP, c.Isolation = cmp.Or(kept.Name, c.Name), kept.DSCP, kept.Isolation
	for i, q := range kept.Queues {
		c.Queues[i].Name, c.Queues[i].DSCP, c.Queues[i].Match = q.Name, q.DSCP, matches[i]
	}
}

// insideMap opens the map; nil if there is none and none is to be made.
func (b *Backend) insideMap(make bool) (*ebpf.Map, error) {
	dir, err := b.pins()
	if err != nil {
		return nil, err
	}
	pin := filepath.Join(dir, insidePin)
	m, err := ebpf.LoadPinnedMap(pin, nil)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if !make {
		return nil, nil
	}
	m, err = ebpf.NewMap(&ebpf.MapSpec{
		Name: "weir_inside", Type: ebpf.Hash, KeySize: 4, ValueSize: insideSize, MaxEntries: plan.MaxClasses,
		Flags: unix.BPF_F_NO_PREALLOC, // memory for those only that have something to keep
	})
	if err != nil {
		return nil, err
	}
	return m, m.Pin(pin)
}

// keepInside writes what differs between two states.
func (b *Backend) keepInside(have, want plan.State) error {
	type entry struct {
		id   plan.ClassID
		text []byte
	}
	var changed []entry
	for _, c := range want.Classes {
		was, _ := have.Class(c.ID)
		if text := insideOf(c); !bytes.Equal(text, insideOf(was)) {
			changed = append(changed, entry{c.ID, text})
		}
	}
	for _, c := range have.Classes {
		if _, stays := want.Class(c.ID); !stays && insideOf(c) != nil {
			changed = append(changed, entry{c.ID, nil})
		}
	}
	if len(changed) == 0 {
		return nil
	}
	m, err := b.insideMap(true)
	if err != nil {
		return fmt.Errorf("keep the rules of %s: %w", b.device, err)
	}
	defer m.Close()
	for _, e := range changed {
		if e.text == nil {
			if err := m.Delete(uint32(e.id)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
				return fmt.Errorf("forget the rules of class %d of %s: %w", e.id, b.device, err)
			}
			continue
		}
		value := make([]byte, insideSize)
		copy(value, e.text)
		if err := m.Put(uint32(e.id), value); err != nil {
			return fmt.Errorf("keep the rules of class %d of %s: %w", e.id, b.device, err)
		}
	}
	return nil
}

// readInside fills in what was kept of b.have's classes.
func (b *Backend) readInside() error {
	m, err := b.insideMap(false)
	if m == nil || err != nil {
		return err
	}
	defer m.Close()
	value := make([]byte, insideSize)
	for i := range b.have.Classes {
		c := &b.have.Classes[i]
		err := m.Lookup(uint32(c.ID), &value)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the rules of class %d of %s: %w", c.ID, b.device, err)
		}
		fill(c, bytes.TrimRight(value, "\x00"))
	}
	return nil
}
