// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"weir/internal/host/dataplane"
)

// pins is the folder of the link's pins.
func (b *Backend) pins() (string, error) {
	top, err := b.conn.PinDir(b.opts, "links")
	return filepath.Join(top, fmt.Sprintf("%s-%d", undotted.Replace(b.dev.Name), b.dev.Index)), err
}

// undotted writes a device's name (eth0.7) so that a BPF file system takes it, which keeps names
// with dots to itself. No device has a percent sign in its name.
var undotted = strings.NewReplacer(".", "%2e")

// inherit takes the pins of a device of this name that is gone, and says whether there were such: a
// tunnel's comes again with its daemon, and the kernel takes seconds to verify a fresh object. What
// cannot be taken is left to prune.
func (b *Backend) inherit() bool {
	own, err := b.pins()
	if err != nil {
		return false
	}
	links, name := filepath.Split(own)
	stem := name[:strings.LastIndexByte(name, '-')+1]
	entries, _ := os.ReadDir(links)
	for _, entry := range entries {
		rest, named := strings.CutPrefix(entry.Name(), stem)
		index, err := strconv.Atoi(rest)
		if !named || err != nil || index == b.dev.Index {
			continue
		}
		if _, gone := b.conn.LookupIndex(index); errors.Is(gone, dataplane.ErrNoDevice) &&
			os.Rename(filepath.Join(links, entry.Name()), own) == nil {
			return true
		}
	}
	return false
}

// prune removes the pins of devices that are gone, and of the link's device by a name that it had
// before. No agent adopts them any more.
func (b *Backend) prune(dir string) {
	links, own := filepath.Split(dir)
	entries, _ := os.ReadDir(links) // what cannot be read is left
	for _, entry := range entries {
		name := entry.Name()
		index, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
		if err != nil {
			continue // not of ours
		}
		_, unknown := b.conn.LookupIndex(index)
		if formerName := index == b.dev.Index && name != own; !formerName && !errors.Is(unknown, dataplane.ErrNoDevice) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(links, name)); err != nil {
			b.log.Warn("pins of a device that is gone cannot be removed", "err", err)
		}
	}
}
