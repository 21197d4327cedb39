// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// pins is the folder of the link's pins.
func (b *Backend) pins() (string, error) {
	top, err := b.conn.PinDir(b.opts, "links")
	return filepath.Join(top, folderName(b.dev)), err
}

// folderName is that of a device's folder of pins.
func folderName(dev device.Device) string {
	return fmt.Sprintf("%s-%d", undotted.Replace(dev.Name), dev.Index)
}

// undotted writes a device's name (eth0.7) so that a BPF file system takes it, which keeps names
// with dots to itself. No device has a percent sign in its name.
var undotted = strings.NewReplacer(".", "%2e")

// inherit takes the pins of this device by a name that it had before, or of another one that had
// this name, and says whether there were such: names are swapped, a tunnel's device comes again
// with its daemon, and the kernel takes seconds to verify a fresh object. Another device that is
// still there is no link by this name any more: it gets back what it had. What cannot be taken is
// left to prune.
func (b *Backend) inherit() bool {
	own, err := b.pins()
	if err != nil {
		return false
	}
	links, name := filepath.Split(own)
	entries, _ := os.ReadDir(links)
	stem, end := name[:strings.LastIndexByte(name, '-')+1], fmt.Sprintf("-%d", b.dev.Index)
	take := func(entry os.DirEntry) bool { return os.Rename(filepath.Join(links, entry.Name()), own) == nil }
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), end) && entry.Name() != name && take(entry) {
			return true
		}
	}
	for _, entry := range entries {
		rest, named := strings.CutPrefix(entry.Name(), stem)
		index, err := strconv.Atoi(rest)
		if named && err == nil && index != b.dev.Index && b.release(index) == nil && take(entry) {
			return true
		}
	}
	return false
}

// release gives a device that had the link's name before back what it had then.
func (b *Backend) release(index int) error {
	dev, err := b.conn.LookupIndex(index)
	if errors.Is(err, dataplane.ErrNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(b.conn.GiveBack(dev, b.opts, b.log), b.marker.DetachLink(dev))
}

// prune removes the pins of devices that are gone or have another name by now, but for those of
// links that are awaited. No agent adopts them any more.
func (b *Backend) prune(dir string) {
	links, own := filepath.Split(dir)
	entries, _ := os.ReadDir(links) // what cannot be read is left
	for _, entry := range entries {
		name := entry.Name()
		dash := strings.LastIndexByte(name, '-')
		index, err := strconv.Atoi(name[dash+1:])
		if err != nil || dash < 0 || name == own {
			continue // not of ours
		}
		dev, unknown := b.conn.LookupIndex(index)
		if unknown == nil && folderName(dev) == name || unknown != nil && !errors.Is(unknown, dataplane.ErrNoDevice) ||
			slices.ContainsFunc(b.opts.Awaited, func(link string) bool { return undotted.Replace(link) == name[:dash] }) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(links, name)); err != nil {
			b.log.Warn("pins of a device that is gone cannot be removed", "err", err)
		}
	}
}
