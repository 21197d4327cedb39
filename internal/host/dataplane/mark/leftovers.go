// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/host/dataplane/mark/group"
)

// There may be thousands of cgroups without processes of which a socket is open, and each link asks
// for them, some times a second. So what one look has found stands for the looks of all links in
// the next half second, and a look reads little of what it knows. A cgroup that was removed stays
// so: only that its last socket was closed is news of it, and lookedAt of them are asked for that,
// by turns. With 2,000 of them, one that has no socket any more is known for up to 16 s.
const (
	freshFor = 500 * time.Millisecond
	lookedAt = 128
)

// leftover is what is known of a cgroup without processes that has a link.
type leftover struct {
	who  identity
	path string // "" = the cgroup was removed
}

// leftoverFolder is what is known of a folder of pins.
type leftoverFolder struct {
	read   time.Time
	known  map[uint64]leftover // by the cgroup's id
	turn   int                 // at which of the removed ones the next look begins
	opened int                 // pins, ever
}

// leftovers is what is known of all folders of pins, by their paths. The Markers of all links share
// it.
var leftovers = leftoverFolders{folders: map[string]*leftoverFolder{}}

type leftoverFolders struct {
	sync.Mutex
	folders map[string]*leftoverFolder
}

// of returns what is known of a folder. Called with the lock held.
func (l *leftoverFolders) of(dir string) *leftoverFolder {
	f := l.folders[dir]
	if f == nil {
		f = &leftoverFolder{known: map[uint64]leftover{}}
		l.folders[dir] = f
	}
	return f
}

// forget has a pin read anew that comes or goes.
func (l *leftoverFolders) forget(at pin) {
	l.Lock()
	defer l.Unlock()
	f := l.of(filepath.Dir(at.path))
	if id, err := strconv.ParseUint(filepath.Base(at.path), 10, 64); err == nil {
		delete(f.known, id)
	}
	f.read = time.Time{}
}

// look brings what is known of a folder up to date.
func (m remnants) look(h groupHook, dir string, f *leftoverFolder) error {
	if time.Since(f.read) < freshFor {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the cgroups that are gone: %w", err)
	}
	var removed []uint64
	there := map[uint64]bool{}
	for _, entry := range entries {
		id, err := strconv.ParseUint(entry.Name(), 10, 64)
		if err != nil {
			continue // not a pin of ours
		}
		there[id] = true
		if l, known := f.known[id]; known && l.path == "" {
			removed = append(removed, id)
		} else if err := m.one(h, f, id); err != nil {
			return err
		}
	}
	maps.DeleteFunc(f.known, func(id uint64, _ leftover) bool { return !there[id] })
	slices.Sort(removed)
	for range min(len(removed), lookedAt) {
		f.turn = (f.turn + 1) % len(removed)
		if err := m.still(h, f, removed[f.turn], ""); err != nil {
			return err
		}
	}
	f.read = time.Now()
	return nil
}

// one looks at a cgroup that is there, or of which nothing is known. It is let go where processes
// have entered it.
func (m remnants) one(h groupHook, f *leftoverFolder, id uint64) error {
	path := f.known[id].path
	var stat unix.Stat_t
	if path == "" || unix.Lstat(path, &stat) != nil || stat.Ino != id {
		var err error
		if path, err = group.PathOf(id); errors.Is(err, unix.ESTALE) {
			path = ""
		} else if err != nil {
			return err
		}
	}
	if path == "" || !group.Populated(path) {
		return m.still(h, f, id, path)
	}
	delete(f.known, id)
	at, err := m.cgroupPin(h.goneFolder(), id)
	if err != nil {
		return err
	}
	return m.release(h, at, id, true)
}

// still notes what a cgroup's program is, or that the cgroup has no sockets any more.
func (m remnants) still(h groupHook, f *leftoverFolder, id uint64, path string) error {
	at, err := m.cgroupPin(h.goneFolder(), id)
	if err != nil {
		return err
	}
	f.opened++
	l, who, err := m.open(at)
	if l == nil || err != nil {
		delete(f.known, id)
		return err
	}
	f.known[id] = leftover{who, path}
	return l.Close()
}
