// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
)

// A socket may outlive the cgroup that it was made in: the kernel still sends what a process
// wrote before it ended, or the socket was passed to a process elsewhere. The kernel ends the
// link of a cgroup with the last of its sockets. So the link of a cgroup that is gone, or that
// no process is in, stays pinned in a folder of its own until then, and its sockets count for
// the class that its program names while that class is there (Sockets). The agent keeps the class
// of a workload that has ended for as long (OpenSockets). The next agent finds the pins.
//
//	cgroups/2697        class 6, /sys/fs/cgroup/web.slice
//	cgroups_gone/2697   the same after the cgroup was removed, while one of its sockets is open
//	                    (no pin)   after that socket was closed
//
// A cgroup that processes have entered again since is let go: it is another's.

// remnants is a Marker at cgroups that have sockets and no processes.
type remnants struct{ *Marker }

// goneFolder is where the links of cgroups without processes are pinned.
func (h groupHook) goneFolder() string { return h.folder + "_gone" }

// leave leaves the link of a cgroup to its sockets.
func (m remnants) leave(h groupHook, id uint64, from pin) error {
	to, err := m.cgroupPin(h.goneFolder(), id)
	if err != nil {
		return err
	}
	leftovers.forget(to)
	return move(from, to)
}

// regain takes the link of a cgroup back, if it was left.
func (m remnants) regain(h groupHook, id uint64, to pin) error {
	from, err := m.cgroupPin(h.goneFolder(), id)
	if err != nil {
		return err
	}
	leftovers.forget(from)
	return move(from, to)
}

// move renames a pin. It is no error if there is none.
func move(from, to pin) error {
	if err := os.Rename(from.path, to.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the link of a cgroup: %w", err)
	}
	return nil
}

// all returns what the programs of the cgroups are that have sockets and no processes, by
// the cgroups' ids.
func (m remnants) all() (map[uint64]identity, error) {
	leftovers.Lock()
	defer leftovers.Unlock()
	left := map[uint64]identity{}
	for _, h := range []groupHook{sends, opens} {
		dir, err := m.conn.PinDir(m.opts, h.goneFolder())
		if err != nil {
			return nil, err
		}
		f := leftovers.of(dir)
		if err := m.look(h, dir, f); err != nil {
			return nil, err
		}
		for id, l := range f.known {
			left[id] = l.who
		}
	}
	return left, nil
}

// OpenSockets returns the classes of the cgroups that have sockets and no processes.
func OpenSockets(opts dataplane.Options, log *slog.Logger) (map[plan.ClassID]bool, error) {
	m, err := New(opts, log)
	if err != nil {
		return nil, err
	}
	left, err := remnants{m}.all()
	open := map[plan.ClassID]bool{}
	for _, who := range left {
		open[who.class()] = true
	}
	return open, errors.Join(err, m.Close())
}

// removeAll removes the pins of what remains.
func (m remnants) removeAll() error {
	var failed error
	for _, h := range []groupHook{sends, opens} {
		dir, err := m.conn.PinDir(m.opts, h.goneFolder())
		if err != nil {
			continue // it was not there either
		}
		pins, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, path := range pins {
			leftovers.forget(pin{path: path})
			failed = errors.Join(failed, os.Remove(path))
		}
	}
	return failed
}

// release ends the link of a cgroup, or leaves it to its sockets.
func (m remnants) release(h groupHook, at pin, id uint64, populated bool) error {
	if !populated {
		return m.leave(h, id, at)
	}
	err := m.remove(at)
	if h == sends {
		err = errors.Join(err, m.bypass().Unbind(id))
	}
	return err
}

// of finds the cgroups without processes whose sockets count for a class of the state.
func (m remnants) of(s plan.State) ([]owned, error) {
	left, err := m.all()
	if err != nil {
		return nil, err
	}
	var list []owned
	for id, who := range left {
		class, there := s.Class(who.class())
		if !there || class.Group || class.ID == 0 {
			continue
		}
		rules, err := MarkingOf(class).rules()
		if err != nil {
			return nil, err
		}
		list = append(list, owned{id, who.levels, class.ID, rules.Default, who.name == sends.program})
	}
	return list, nil
}
