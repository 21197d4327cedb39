// SPDX-License-Identifier: Apache-2.0

// Package bypass refuses to workloads without a port what would send their packets past the qdisc:
// PACKET_QDISC_BYPASS and AF_XDP, and more than a few changes a second of the groups of multicast
// that they are in, which the kernel reports in its own name. A process in the cgroup of such a
// workload asks the kernel for them by a socket option, and the kernel asks
// bpf/marking/bypass.bpf.c about each one.
//
// Example: cgroup 2697 is a workload's. Bind(2697) puts it into the table; from then on setsockopt
// of PACKET_QDISC_BYPASS in it returns EPERM, until Unbind(2697).
//
// What it does not do: take the option from a socket that has it already.
package bypass

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark/pinned"
)

// Folder is where the table and the links are pinned, the links under the digest of their build,
// for as long as a link is steered.
const Folder = "bypass"

const (
	boundPin   = "cgroups"
	refusalPin = "refusal_"
)

// mu keeps the Markers of several links from making the pins at once.
var mu sync.Mutex

// Refusals is the table of cgroups and the programs of a network namespace.
type Refusals struct {
	Conn *device.Conn
	Opts dataplane.Options
}

// dir is the folder of the pins.
func (b Refusals) dir() (string, error) { return b.Conn.PinDir(b.Opts, Folder) }

// How a cgroup is in the table: values of bpf/marking/bypass.bpf.c.
const (
	Known uint8 = 1 // it is a workload's without a port
	Born  uint8 = 2 // it is a container's of which no more is known
)

// Bind refuses the options to processes of a cgroup. It does nothing where the kernel
// cannot: Gaps says so.
func (b Refusals) Bind(id uint64) error {
	return b.withBound(func(bound *ebpf.Map) error {
		err := bound.Put(id, Known)
		for range 3 { // a container that makes cgroups may be faster once
			if !errors.Is(err, unix.E2BIG) {
				break
			}
			if err = forgetBorn(bound); err == nil {
				err = bound.Put(id, Known)
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
		if how != Born {
			continue
		}
		if gone := bound.Delete(id); !errors.Is(gone, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

// Stand has the kernel ask the table, so that a container is in it from its beginning on.
func (b Refusals) Stand() error { return b.withBound(func(*ebpf.Map) error { return nil }) }

// withBound does something with the table, and has the kernel ask it.
func (b Refusals) withBound(do func(bound *ebpf.Map) error) error {
	if Unsupported() != nil {
		return nil
	}
	mu.Lock()
	defer mu.Unlock()
	dir, err := b.dir()
	if err != nil {
		return err
	}
	bound, err := table.Open(dir)
	if err != nil {
		return err
	}
	defer bound.Close()
	return errors.Join(do(bound), b.refuse(dir, bound))
}

// table is that of the cgroups.
var table = pinned.Map{Pin: boundPin, Links: refusalPin, Name: bypassMapWeirBound, Collection: loadBypass}

// refuse has the programs of this build ask and fill the table, and ends those of others.
func (b Refusals) refuse(dir string, bound *ebpf.Map) error {
	missing := slices.DeleteFunc(slices.Clone(refusalNames()), func(name string) bool { return !pinned.Absent(dir, name) })
	if len(missing) > 0 {
		links, err := linkRefusals(bound, b.Conn.Netns())
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
	return pinned.EndLinks(dir, refusalPin, refusalNames())
}

// refusalNames are the names of the pins: of the program that refuses, and of the one that fills
// the table.
var refusalNames = sync.OnceValue(func() []string {
	build := pinned.Build(_BypassBytes)
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

// Unsupported says why this kernel cannot refuse the options; nil = it can.
var Unsupported = sync.OnceValue(func() error {
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

// Gap says what is not held on a kernel that cannot refuse the options; "" = this one can.
func Gap() string {
	err := Unsupported()
	if err == nil {
		return ""
	}
	return "A workload with the host's network can send past the qdisc, with CAP_NET_RAW by PACKET_QDISC_BYPASS or AF_XDP, and have the kernel send reports of multicast without end: " +
		"this kernel cannot refuse them (needs Linux 6.1 with BTF; arm64: 6.4): " + device.Reason("refuse socket options", err)
}

// Unbind no longer refuses a cgroup anything.
func (b Refusals) Unbind(id uint64) error {
	return b.Keep(func(other uint64, _ uint8) bool { return other != id })
}

// Keep takes cgroups out of the table.
func (b Refusals) Keep(keep func(id uint64, how uint8) bool) error {
	mu.Lock()
	defer mu.Unlock()
	dir, err := b.dir()
	if err != nil {
		return err
	}
	bound, err := ebpf.LoadPinnedMap(filepath.Join(dir, boundPin), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return pinned.EndLinks(dir, refusalPin, nil)
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

// End takes the programs and the table off.
func (b Refusals) End() error {
	mu.Lock()
	defer mu.Unlock()
	dir, err := b.dir()
	if err != nil {
		return nil // it was not there either
	}
	return table.End(dir)
}

// IDs returns the cgroups of the table, and how each is in it.
func (b Refusals) IDs() (all map[uint64]uint8, err error) {
	err = b.withBound(func(bound *ebpf.Map) error {
		all, err = boundIDs(bound)
		return err
	})
	return all, err
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

// IsBound says whether the options are refused to a cgroup, or cannot be on this kernel.
func (b Refusals) IsBound(id uint64) (bool, error) {
	if Unsupported() != nil {
		return true, nil
	}
	dir, err := b.dir()
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(refusalNames(), func(name string) bool { return pinned.Absent(dir, name) }) {
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
	var how uint8
	err = bound.Lookup(id, &how)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil && how == Known, err
}
