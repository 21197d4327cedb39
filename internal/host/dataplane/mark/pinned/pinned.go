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

// OpenMap opens the map that is pinned at a path, or makes it as the collection has the one called
// name.
func OpenMap(path string, collection func() (*ebpf.CollectionSpec, error), name string) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	spec, err := collection()
	if err != nil {
		return nil, err
	}
	if m, err = ebpf.NewMap(spec.Maps[name]); err != nil {
		return nil, fmt.Errorf("make the map %s: %w", name, err)
	}
	if err := m.Pin(path); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
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

// End ends all such links, and removes the pin of the map.
func End(dir, prefix, mapPin string) error {
	err := EndLinks(dir, prefix, nil)
	if gone := os.Remove(filepath.Join(dir, mapPin)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}
