// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

	// Programs and Links count the whole machine, so they are counted in the virtual
	// machine only, where no other program makes any.
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

// mapNames returns the names of all maps in the kernel; a name may be there twice.
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

// files returns the agent's descriptors but for its clients' connections.
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

// live returns the memory that the agent had in use at its last garbage collection, in
// KiB. The kernel's count depends on the time of that collection more than on the memory
// in use.
func (b *bed) live() (kib int) {
	b.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", b.socket())
		}}}
	resp, err := client.Get("http://agent/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "go_memstats_next_gc_bytes "); ok {
			next, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.t.Fatal(err)
			}
			return int(next) / 2 >> 10 // the next collection is due when that has doubled
		}
	}
	b.t.Fatal("the agent's metrics do not say how much memory it uses")
	return 0
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
