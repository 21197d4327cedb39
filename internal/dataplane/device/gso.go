// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/dataplane"
)

// Versions of Weir before the Splitter lowered gso_max_size at the container's end of each
// workload's veth, and remembered the former size in a file. What is left here gives that back.

// GSO is how large offloaded packets on a device may be, in bytes.
type GSO struct {
	Size     uint32 `json:"size"`      // gso_max_size
	IPv4Size uint32 `json:"ipv4_size"` // gso_ipv4_max_size; 0 = the kernel has none
}

// setGSO sets the limit on a device of c's namespace.
func (c *Conn) setGSO(index int, want GSO) error {
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

// RestoreGSO puts back every limit that Weir once changed, except where a program
// has set another one since, and forgets devices and namespaces that are gone.
func RestoreGSO(opts dataplane.Options, log *slog.Logger) error {
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
		if err := m.restore(); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		failed = errors.Join(failed, os.Remove(path))
	}
	return failed
}

func (m gsoMemory) restore() error {
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
	if err != nil || dev.GSOMaxSize != m.Set {
		return err
	}
	return c.setGSO(m.Ifindex, m.Former)
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
