// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
)

// A process in the cgroup of a workload without a port may not send past the qdisc: the
// kernel asks bpf/marking/bypass.bpf.c about each socket option. Its table of cgroups and
// its link are pinned in bypassFolder, the link under the digest of its build.
const (
	bypassFolder = "bypass"
	boundPin     = "cgroups"
	refusalPin   = "refusal_"
)

// bypassMu keeps the Markers of several links from making the pins at once.
var bypassMu sync.Mutex

// bypass is the table and the program of a network namespace.
type bypass struct {
	conn *device.Conn
	opts dataplane.Options
}

func (m *Marker) bypass() bypass { return bypass{m.conn, m.opts} }

// dir is the folder of the pins.
func (b bypass) dir() (string, error) { return b.conn.PinDir(b.opts, bypassFolder) }

// bind refuses the options to processes of a cgroup. It does nothing where the kernel
// cannot: Gaps says so.
func (b bypass) bind(id uint64) error {
	if noRefusal() != nil {
		return nil
	}
	bypassMu.Lock()
	defer bypassMu.Unlock()
	dir, err := b.dir()
	if err != nil {
		return err
	}
	bound, err := openBound(dir)
	if err != nil {
		return err
	}
	defer bound.Close()
	if err := bound.Put(id, uint8(1)); err != nil {
		return fmt.Errorf("refuse cgroup %d to send past the qdisc: %w", id, err)
	}
	return refuse(dir, bound)
}

// openBound opens the table of cgroups, or makes it.
func openBound(dir string) (*ebpf.Map, error) {
	path := filepath.Join(dir, boundPin)
	bound, err := ebpf.LoadPinnedMap(path, nil)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return bound, err
	}
	spec, err := loadBypass()
	if err != nil {
		return nil, err
	}
	bound, err = ebpf.NewMap(spec.Maps[bypassMapWeirBound])
	if err != nil {
		return nil, err
	}
	if err := bound.Pin(path); err != nil {
		return nil, errors.Join(err, bound.Close())
	}
	return bound, nil
}

// refuse has the program of this build ask the table, and ends those of others.
func refuse(dir string, bound *ebpf.Map) error {
	path := filepath.Join(dir, refusalName())
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		l, err := linkRefusal(bound)
		if err != nil {
			return fmt.Errorf("refuse to send past the qdisc: %w", err)
		}
		defer l.Close()
		if err := l.Pin(path); err != nil {
			return err
		}
	}
	return removeRefusals(dir, refusalName())
}

// removeRefusals ends the links of all builds but one.
func removeRefusals(dir, but string) error {
	pins, err := filepath.Glob(filepath.Join(dir, refusalPin+"*"))
	for _, pin := range pins {
		if filepath.Base(pin) != but {
			err = errors.Join(err, os.Remove(pin))
		}
	}
	return err
}

var refusalName = sync.OnceValue(func() string {
	sum := sha256.Sum256(_BypassBytes)
	return refusalPin + hex.EncodeToString(sum[:6])
})

// linkRefusal loads the program with a table and attaches it.
func linkRefusal(bound *ebpf.Map) (link.Link, error) {
	spec, err := loadBypass()
	if err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{bypassMapWeirBound: bound}})
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return link.AttachTracing(link.TracingOptions{Program: coll.Programs[bypassProgWeirRefuseBypass]})
}

// noRefusal says why this kernel cannot refuse the options; nil = it can.
var noRefusal = sync.OnceValue(func() error {
	spec, err := loadBypass()
	if err != nil {
		return err
	}
	bound, err := ebpf.NewMap(spec.Maps[bypassMapWeirBound])
	if err != nil {
		return err
	}
	defer bound.Close()
	l, err := linkRefusal(bound)
	if err != nil {
		return err
	}
	return l.Close()
})

// unbind no longer refuses a cgroup anything, and ends the program with the last one.
func (b bypass) unbind(id uint64) error {
	return b.keepBound(func(other uint64) bool { return other != id })
}

// keepBound takes cgroups out of the table, and the program off once it is empty.
func (b bypass) keepBound(keep func(id uint64) bool) error {
	bypassMu.Lock()
	defer bypassMu.Unlock()
	dir, err := b.dir()
	if err != nil {
		return err
	}
	path := filepath.Join(dir, boundPin)
	bound, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return removeRefusals(dir, "")
	}
	if err != nil {
		return err
	}
	defer bound.Close()
	ids, err := boundIDs(bound)
	if err != nil {
		return err
	}
	left := 0
	for _, id := range ids {
		if keep(id) {
			left++
		} else if err := bound.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	if left > 0 {
		return nil
	}
	return errors.Join(removeRefusals(dir, ""), os.Remove(path))
}

// boundIDs reads the table.
func boundIDs(bound *ebpf.Map) (ids []uint64, err error) {
	var id uint64
	var one uint8
	each := bound.Iterate()
	for each.Next(&id, &one) {
		ids = append(ids, id)
	}
	return ids, each.Err()
}

// isBound says whether the options are refused to a cgroup, or cannot be on this kernel.
func (b bypass) isBound(id uint64) (bool, error) {
	if noRefusal() != nil {
		return true, nil
	}
	dir, err := b.dir()
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(filepath.Join(dir, refusalName())); err != nil {
		return false, nil
	}
	bound, err := ebpf.LoadPinnedMap(filepath.Join(dir, boundPin), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer bound.Close()
	var one uint8
	err = bound.Lookup(id, &one)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil, err
}

// holds is isBound of the cgroup at a path; one that is gone is held.
func (b bypass) holds(path string) (bool, error) {
	group, err := openCgroup(path)
	if errors.Is(err, dataplane.ErrNoDevice) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer group.Close()
	return b.isBound(group.id)
}

// Gaps says what marking cannot hold on this kernel, one sentence each.
func (m *Marker) Gaps() []string {
	err := noRefusal()
	if err == nil || m.opts.IFB() {
		return nil
	}
	reason, _, _ := strings.Cut(device.Explain("refuse socket options", err).Error(), "\n")
	return []string{"A workload with the host's network and CAP_NET_RAW can send past the qdisc, by PACKET_QDISC_BYPASS or AF_XDP: this kernel cannot refuse them (needs Linux 6.1 with BTF; arm64: 6.4): " + reason + "."}
}
