// SPDX-License-Identifier: Apache-2.0

// Package pinned has what programs share that stay attached without an agent: their map and their
// links are pinned in a folder, each link under the digest of the build that attached it.
package pinned

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Build is the digest of a build's object file, for the names of its pins.
func Build(object []byte) string {
	sum := sha256.Sum256(object)
	return hex.EncodeToString(sum[:6])
}

// Map is one that links share whose pins' names begin with Links. It is pinned under the name Pin.
type Map struct {
	Pin, Links string
	Name       string // in the collection, of 15 letters at most
	Collection func() (*ebpf.CollectionSpec, error)
}

// Open opens the map in a folder, or makes it. If its pin alone is lost, it is the one of the
// programs that run. One of another layout, a former build's, goes with the programs that use it.
func (m Map) Open(dir string) (*ebpf.Map, error) {
	path := filepath.Join(dir, m.Pin)
	collection, err := m.Collection()
	if err != nil {
		return nil, err
	}
	spec := collection.Maps[m.Name]
	found, err := ebpf.LoadPinnedMap(path, nil)
	lost := errors.Is(err, fs.ErrNotExist)
	if err != nil && !lost {
		return nil, err
	}
	if lost {
		found = m.running(dir)
	}
	if found != nil && errors.Is(spec.Compatible(found), ebpf.ErrMapIncompatible) {
		if err := errors.Join(found.Close(), m.End(dir)); err != nil {
			return nil, err
		}
		found, lost = nil, true
	}
	if found == nil {
		if found, err = ebpf.NewMap(spec); err != nil {
			return nil, fmt.Errorf("make the map %s: %w", m.Name, err)
		}
	}
	if lost {
		if err := found.Pin(path); err != nil {
			return nil, errors.Join(err, found.Close())
		}
	}
	return found, nil
}

// running returns the map of the programs whose links are pinned; nil = none of them runs.
func (m Map) running(dir string) *ebpf.Map {
	pins, _ := filepath.Glob(filepath.Join(dir, m.Links+"*"))
	for _, pin := range pins {
		for _, id := range mapsOf(pin) {
			found, err := ebpf.NewMapFromID(id)
			if err != nil {
				continue
			}
			if info, err := found.Info(); err == nil && info.Name == m.Name {
				return found
			}
			found.Close()
		}
	}
	return nil
}

// mapsOf returns the maps of the program of a pinned link, none where that cannot be told.
func mapsOf(pin string) []ebpf.MapID {
	l, err := link.LoadPinnedLink(pin, nil)
	if err != nil {
		return nil
	}
	defer l.Close()
	info, err := l.Info()
	if err != nil {
		return nil
	}
	program, err := ebpf.NewProgramFromID(info.Program)
	if err != nil {
		return nil
	}
	defer program.Close()
	of, err := program.Info()
	if err != nil {
		return nil
	}
	maps, _ := of.MapIDs()
	return maps
}

// Absent reports whether nothing is pinned in the folder under a name.
func Absent(dir, name string) bool {
	var stat unix.Stat_t
	return errors.Is(unix.Lstat(filepath.Join(dir, name), &stat), unix.ENOENT)
}

// EndLinks ends the links whose pins' names begin with prefix, but those named in but. Where the
// kernel can detach a link it is off at once; else some time after its pin is gone.
func EndLinks(dir, prefix string, but []string) error {
	pins, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	for _, pin := range pins {
		if slices.Contains(but, filepath.Base(pin)) {
			continue
		}
		if l, opened := link.LoadPinnedLink(pin, nil); opened == nil {
			if off := l.Detach(); !errors.Is(off, link.ErrNotSupported) {
				err = errors.Join(err, off)
			}
			err = errors.Join(err, l.Close())
		}
		err = errors.Join(err, os.Remove(pin))
	}
	return err
}

// End ends all links of the map, and removes its pin.
func (m Map) End(dir string) error {
	err := EndLinks(dir, m.Links, nil)
	if gone := os.Remove(filepath.Join(dir, m.Pin)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
