// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// leftovers is everything outside of an agent's memory that it could forget to
// take back.
type leftovers struct {
	Pins  []string // in the BPF file system
	Files int      // descriptors that the agent has open

	// Of the whole machine, so they are counted in the virtual machine only,
	// where nobody else makes any.
	Programs, Links int
	Maps            []string // names
}

// inventory lists what there is now; a may be nil.
func inventory(t testing.TB, a *agent) leftovers {
	t.Helper()
	var l leftovers
	err := filepath.WalkDir("/sys/fs/bpf/weir", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			l.Pins = append(l.Pins, strings.TrimPrefix(path, "/sys/fs/bpf/weir/"))
		}
		return nil // what vanishes meanwhile is no leftover
	})
	if err != nil {
		t.Fatal(err)
	}
	if a != nil {
		l.Files = len(a.files())
	}
	if !onBPF() {
		return l
	}
	l.Programs = count(ebpf.ProgramGetNextID)
	l.Maps = mapNames()
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		l.Links++
	}
	if err := links.Err(); err != nil {
		t.Fatal(err)
	}
	return l
}

// mapNames are the names of all maps in the kernel; a name may be there twice.
func mapNames() (names []string) {
	for id, err := ebpf.MapGetNextID(0); err == nil; id, err = ebpf.MapGetNextID(id) {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // gone meanwhile
		}
		if info, err := m.Info(); err == nil {
			names = append(names, info.Name)
		}
		m.Close()
	}
	return names
}

func count[ID ~uint32](next func(ID) (ID, error)) (n int) {
	for id, err := next(0); err == nil; id, err = next(id) {
		n++
	}
	return n
}

// files are the agent's descriptors but for its clients' connections.
func (a *agent) files() []string {
	a.t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", a.pid())
	entries, err := os.ReadDir(dir)
	if err != nil {
		a.t.Fatal(err)
	}
	var list []string
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil {
			list = append(list, target)
		}
	}
	return list
}

// resident is the agent's memory in KiB.
func (a *agent) resident() (kib int) {
	a.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.pid()))
	if err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				a.t.Fatal(err)
			}
		}
	}
	return kib
}

// more says what l has more of than before.
func (l leftovers) more(before leftovers) error {
	var found []string
	for _, pin := range l.Pins {
		if !slices.Contains(before.Pins, pin) {
			found = append(found, "pin "+pin)
		}
	}
	for _, c := range []struct {
		what     string
		was, now int
	}{
		{"programs", before.Programs, l.Programs}, {fmt.Sprintf("maps %v", l.Maps), len(before.Maps), len(l.Maps)},
		{"links", before.Links, l.Links}, {"open files", before.Files, l.Files},
	} {
		if c.now > c.was {
			found = append(found, fmt.Sprintf("%d %s instead of %d", c.now, c.what, c.was))
		}
	}
	if found == nil {
		return nil
	}
	return fmt.Errorf("left behind: %s", strings.Join(found, ", "))
}
