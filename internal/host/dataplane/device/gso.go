// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
)

// The kernel bounds the size of offloaded packets by device, and TCP asks the device that it
// sends through how large a packet may be. For a container that is its own eth0, so a limit for
// what it builds belongs on the container's end of the veth. It holds for all that it sends, also
// within the host, so that workloads with a reservation alone have one (package offload); links
// split what others build (Splitter).
//
// A limit counts at once for all packets: TCP connections that began before
// build larger ones for as long as their route is cached, and the device cuts
// these into single frames, correctly but at more CPU time.

// GSO is how large offloaded packets on a device may be, in bytes.
type GSO struct {
	Size     uint32 `json:"size"`      // gso_max_size
	IPv4Size uint32 `json:"ipv4_size"` // gso_ipv4_max_size; 0 = the kernel has none
}

// SetGSO sets the limit on a device of c's namespace.
func (c *Conn) SetGSO(index int, want GSO) error {
	dev, err := c.LookupIndex(index)
	if err != nil {
		return err
	}
	link := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: dev.Index, Name: dev.Name}}
	if err := c.links.LinkSetGSOMaxSize(link, int(want.Size)); err != nil {
		return Explain("set gso_max_size of "+dev.Name, err)
	}
	if want.IPv4Size == 0 {
		return nil
	}
	if err := c.links.LinkSetGSOIPv4MaxSize(link, int(want.IPv4Size)); err != nil {
		return Explain("set gso_ipv4_max_size of "+dev.Name, err)
	}
	return nil
}

// gsoMemory is the former limit of one device in one network namespace.
type gsoMemory struct {
	Netns   string `json:"netns"` // path, "" = the host's
	Inode   uint64 `json:"inode"` // of the namespace: paths with a PID in them are reused
	Ifindex int    `json:"ifindex"`
	Former  GSO    `json:"former"`
	Set     uint32 `json:"set"`
}

// LimitGSO sets the limit on the device with the given index in the network
// namespace at netnsPath ("" = the calling thread's) and remembers the former
// one. A device whose limit is lower already is left alone. It may be called
// again with the same or another limit.
func LimitGSO(opts dataplane.Options, netnsPath string, index int, limit uint32) error {
	c, err := OpenNetns(netnsPath)
	if err != nil {
		return err
	}
	defer c.Close()
	dev, err := c.LookupIndex(index)
	if err != nil {
		return err
	}
	inode, err := netnsInode(netnsPath)
	if err != nil {
		return err
	}
	path := gsoFile(opts, inode, index)
	m := gsoMemory{Netns: netnsPath, Inode: inode, Ifindex: index, Former: GSO{dev.GSOMaxSize, dev.GSOIPv4MaxSize}}
	var earlier gsoMemory
	if err := Recall(path, &earlier); err == nil && earlier.Set == dev.GSOMaxSize {
		m.Former = earlier.Former // the present size was set by Weir
	}
	limit = min(limit, m.Former.Size)
	if limit == dev.GSOMaxSize {
		return nil
	}
	m.Set = limit
	if err := Remember(path, m); err != nil {
		return err
	}
	want := GSO{Size: limit}
	if m.Former.IPv4Size != 0 {
		want.IPv4Size = min(limit, m.Former.IPv4Size)
	}
	return c.SetGSO(index, want)
}

// gsoFile is where the former limit of a device is remembered.
func gsoFile(opts dataplane.Options, inode uint64, index int) string {
	return filepath.Join(StateDir(opts), fmt.Sprintf("gso-%d-%d.json", inode, index))
}

// RestoreGSOOf does what RestoreGSO does for one device, given as LimitGSO had it.
func RestoreGSOOf(opts dataplane.Options, netnsPath string, index int) error {
	inode, err := netnsInode(netnsPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // gone with its devices; the next RestoreGSO forgets them
	}
	if err != nil {
		return err
	}
	path := gsoFile(opts, inode, index)
	var m gsoMemory
	switch err := Recall(path, &m); {
	case errors.Is(err, fs.ErrNotExist):
		return nil // nothing was changed
	case err != nil:
		return err
	}
	m.Netns = netnsPath // by which it can be reached now
	if err := m.restore(); err != nil {
		return err
	}
	return os.Remove(path)
}

// errKept says that a limit stays.
var errKept = errors.New("the limit stays")

// RestoreGSO puts back every limit that LimitGSO changed, except where a program has set another
// one since, and forgets devices and namespaces that are gone. Limits stay of devices whose other
// ends have the given indexes.
func RestoreGSO(opts dataplane.Options, ends []int, log *slog.Logger) error {
	paths, err := filepath.Glob(filepath.Join(StateDir(opts), "gso-*.json"))
	if err != nil {
		return fmt.Errorf("list remembered gso limits: %w", err)
	}
	var failed error
	for _, path := range paths {
		var m gsoMemory
		if err := Recall(path, &m); err != nil {
			log.Warn("cannot read a remembered gso limit", "err", err)
			continue
		}
		switch err := m.restore(ends...); {
		case errors.Is(err, errKept):
			continue
		case err != nil:
			failed = errors.Join(failed, err)
			continue
		}
		failed = errors.Join(failed, os.Remove(path))
	}
	return failed
}

// restore puts the former limit back, unless the device's other end has one of the indexes.
func (m gsoMemory) restore(ends ...int) error {
	inode, err := netnsInode(m.Netns)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && inode != m.Inode) {
		return nil // the container is gone, and its device with it
	}
	if err != nil {
		return err
	}
	c, err := OpenNetns(m.Netns)
	if err != nil {
		return err
	}
	defer c.Close()
	dev, err := c.LookupIndex(m.Ifindex)
	if errors.Is(err, dataplane.ErrNoDevice) {
		return nil
	}
	if err == nil && slices.Contains(ends, dev.Peer) {
		return errKept
	}
	if err != nil || dev.GSOMaxSize != m.Set {
		return err
	}
	return c.SetGSO(m.Ifindex, m.Former)
}

// netnsInode identifies the namespace at path ("" = the calling thread's).
func netnsInode(path string) (uint64, error) {
	if path == "" {
		path = "/proc/thread-self/ns/net"
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Ino, nil
}
