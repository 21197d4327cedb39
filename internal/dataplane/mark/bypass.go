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
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/dataplane"
	"weir/internal/dataplane/device"
)

// A process in the cgroup of a workload without a port may not send past the qdisc: the
// kernel asks bpf/marking/bypass.bpf.c about each socket option. Its table of cgroups and
// its links are pinned in bypassFolder, the links under the digest of their build, for as long as
// a link is steered.
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

// How a cgroup is in the table: values of bpf/marking/bypass.bpf.c.
const (
	boundKnown uint8 = 1 // it is a workload's without a port
	boundBorn  uint8 = 2 // it is a container's of which no more is known
)

// bind refuses the options to processes of a cgroup. It does nothing where the kernel
// cannot: Gaps says so.
func (b bypass) bind(id uint64) error {
	return b.withBound(func(bound *ebpf.Map) error {
		err := bound.Put(id, boundKnown)
		for range 3 { // a container that makes cgroups may be faster once
			if !errors.Is(err, unix.E2BIG) {
				break
			}
			if err = forgetBorn(bound); err == nil {
				err = bound.Put(id, boundKnown)
			}
		}
		if err != nil {
			return fmt.Errorf("refuse cgroup %d to send past the qdisc: %w", id, err)
		}
		return nil
	})
}

// forgetBorn makes room in the table: a container that may make cgroups can fill it with names of
// containers.
func forgetBorn(bound *ebpf.Map) error {
	all, err := boundIDs(bound)
	for id, how := range all {
		if how != boundBorn {
			continue
		}
		if gone := bound.Delete(id); !errors.Is(gone, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// stand has the kernel ask the table, so that a container is in it from its beginning on.
func (b bypass) stand() error { return b.withBound(func(*ebpf.Map) error { return nil }) }

// withBound does something with the table, and has the kernel ask it.
func (b bypass) withBound(do func(bound *ebpf.Map) error) error {
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
	return errors.Join(do(bound), b.refuse(dir, bound))
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

// refuse has the programs of this build ask and fill the table, and ends those of others.
func (b bypass) refuse(dir string, bound *ebpf.Map) error {
	missing := slices.DeleteFunc(slices.Clone(refusalNames()), func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
	if len(missing) > 0 {
		links, err := linkRefusals(bound, b.conn.Netns())
		if err != nil {
			return fmt.Errorf("refuse to send past the qdisc: %w", err)
		}
		for i, name := range refusalNames() {
			if slices.Contains(missing, name) {
				err = errors.Join(err, links[i].Pin(filepath.Join(dir, name)))
			}
			err = errors.Join(err, links[i].Close())
		}
		if err != nil {
			return err
		}
	}
	return removeRefusals(dir, refusalNames())
}

// removeRefusals ends the links of all builds but one.
func removeRefusals(dir string, but []string) error {
	pins, err := filepath.Glob(filepath.Join(dir, refusalPin+"*"))
	for _, pin := range pins {
		if !slices.Contains(but, filepath.Base(pin)) {
			err = errors.Join(err, os.Remove(pin))
		}
	}
	return err
}

// refusalNames are the names of the pins: of the program that refuses, and of the one that fills
// the table.
var refusalNames = sync.OnceValue(func() []string {
	sum := sha256.Sum256(_BypassBytes)
	build := hex.EncodeToString(sum[:6])
	return []string{refusalPin + build, refusalPin + "born_" + build}
})

// linkRefusals loads the programs with a table, for a network namespace, and attaches them.
func linkRefusals(bound *ebpf.Map, netns uint64) (links [2]link.Link, err error) {
	spec, err := loadBypass()
	if err != nil {
		return links, err
	}
	if err := spec.Variables[bypassVarWeirNetns].Set(uint32(netns)); err != nil {
		return links, err
	}
	// The programs alone: the library maps the variables of a whole collection into memory, and
	// the kernel keeps them until a garbage collection.
	var programs bypassPrograms
	err = spec.LoadAndAssign(&programs, &ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{bypassMapWeirBound: bound}})
	if err != nil {
		return links, err
	}
	defer programs.Close()
	for i, program := range []*ebpf.Program{programs.WeirRefuseBypass, programs.WeirBorn} {
		if links[i], err = link.AttachTracing(link.TracingOptions{Program: program}); err != nil {
			if i > 0 {
				err = errors.Join(err, links[0].Close())
			}
			return links, err
		}
	}
	return links, nil
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
	links, err := linkRefusals(bound, 0)
	if err != nil {
		return err
	}
	return errors.Join(links[0].Close(), links[1].Close())
})

// unbind no longer refuses a cgroup anything.
func (b bypass) unbind(id uint64) error {
	return b.keepBound(func(other uint64, _ uint8) bool { return other != id })
}

// keepBound takes cgroups out of the table.
func (b bypass) keepBound(keep func(id uint64, how uint8) bool) error {
	bypassMu.Lock()
	defer bypassMu.Unlock()
	dir, err := b.dir()
	if err != nil {
		return err
	}
	bound, err := ebpf.LoadPinnedMap(filepath.Join(dir, boundPin), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return removeRefusals(dir, nil)
	}
	if err != nil {
		return err
	}
	defer bound.Close()
	all, err := boundIDs(bound)
	if err != nil {
		return err
	}
	for id, how := range all {
		if keep(id, how) {
			continue
		}
		if err := bound.Delete(id); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	return nil
}

// end takes the programs and the table off.
func (b bypass) end() error {
	bypassMu.Lock()
	defer bypassMu.Unlock()
	dir, err := b.dir()
	if err != nil {
		return nil // it was not there either
	}
	err = removeRefusals(dir, nil)
	if gone := os.Remove(filepath.Join(dir, boundPin)); !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// boundIDs reads the table.
func boundIDs(bound *ebpf.Map) (map[uint64]uint8, error) {
	all := map[uint64]uint8{}
	var id uint64
	var how uint8
	each := bound.Iterate()
	for each.Next(&id, &how) {
		all[id] = how
	}
	return all, each.Err()
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
	for _, name := range refusalNames() {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false, nil
		}
	}
	bound, err := ebpf.LoadPinnedMap(filepath.Join(dir, boundPin), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer bound.Close()
	var how uint8
	err = bound.Lookup(id, &how)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil && how == boundKnown, err
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
