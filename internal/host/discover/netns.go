// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"weir/internal/core/workload"
	"weir/internal/host/discover/within"
)

// netnsDir is the folder in which "ip netns" keeps named network namespaces.
const netnsDir = "/run/netns"

// Netns is a Source of network namespaces that a person named. A namespace may
// vanish and return under the same name; its workload stays, without devices.
//
// It notices a namespace that comes by the link message of its first veth, and by
// watching the folder that its file is in. A path in /proc cannot be watched: there only
// link messages are left, which is enough for a process that runs.
type Netns struct {
	log   *slog.Logger
	links linkTable
	dir   string
	poke  chan struct{}
	kinds func(path string) ([]within.Device, error) // within.Devices; tests put theirs in its place

	mu       sync.Mutex
	attached map[string]string // workload's name -> path
}

// NewNetns returns a Source without namespaces.
func NewNetns(log *slog.Logger, links *Links) *Netns {
	return newNetns(log, links, netnsDir)
}

func newNetns(log *slog.Logger, links linkTable, dir string) *Netns {
	return &Netns{log: log, links: links, dir: dir, poke: make(chan struct{}, 1), kinds: within.Devices, attached: map[string]string{}}
}

// Name returns "netns".
func (n *Netns) Name() string { return "netns" }

// Status returns workload.SourceOK: the kernel is never away.
func (n *Netns) Status() (state workload.SourceState, note string) { return workload.SourceOK, "" }

// Add makes a workload of a network namespace, given by its name in /run/netns
// or by a path. It refuses a namespace that does not exist, unless told to Wait,
// and the host's own.
func (n *Netns) Add(name, netns string, options ...AddOption) error {
	if err := checkName(name); err != nil {
		return err
	}
	if netns == "" {
		return errors.New("network namespace: give a name in " + n.dir + " or a path")
	}
	path := n.path(netns)
	_, err := n.links.resolve(path)
	switch {
	case errors.Is(err, errOwnNamespace):
		return fmt.Errorf("network namespace %q %w: name one that a workload has to itself", netns, err)
	case errors.Is(err, fs.ErrNotExist):
		if !slices.Contains(options, Wait) {
			return fmt.Errorf("network namespace %q does not exist (%s); there are: %s", netns, path, enumerate(n.existing()))
		}
	case err != nil && !slices.Contains(options, Wait):
		return fmt.Errorf("network namespace %q: %w", netns, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if present, taken := n.attached[name]; taken {
		return errTaken(name, present)
	}
	n.attached[name] = path
	poke(n.poke)
	return nil
}

// Remove forgets a workload.
func (n *Netns) Remove(name string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.attached[name]; !ok {
		return errUnattached(name, n.attached)
	}
	delete(n.attached, name)
	poke(n.poke)
	return nil
}

// path returns the path where the file of a namespace is expected. A name may hold no
// slash.
func (n *Netns) path(netns string) string {
	if strings.Contains(netns, "/") {
		return filepath.Clean(netns)
	}
	return filepath.Join(n.dir, netns)
}

// existing lists the named namespaces.
func (n *Netns) existing() []string {
	entries, _ := os.ReadDir(n.dir) // a missing folder has none
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Run reports the namespaces until ctx ends.
func (n *Netns) Run(ctx context.Context, report func([]Workload)) error {
	files, wake, stop := watchWith(ctx, n.log, n.poke)
	defer stop()
	return follow(ctx, n.links, wake, func() []Workload {
		list, paths := n.list()
		files.want(paths)
		return list
	}, report)
}

func (n *Netns) list() (list []Workload, paths []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, path := range n.attached {
		paths = append(paths, path)
		w := Workload{Key: workload.Key(workload.KindNetns, name), Name: name, Kind: workload.KindNetns, Devices: n.devices(name, path)}
		if len(w.Devices) == 0 {
			w.Awaits, w.Unseen = within.Awaits(path, n.kinds)
		}
		list = append(list, w)
	}
	return list, paths
}

// Look returns the devices of a workload that Add would make of a namespace.
func (n *Netns) Look(netns string) []Device { return n.devices("", n.path(netns)) }

func (n *Netns) devices(name, path string) []Device {
	ns, err := n.links.resolve(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			n.log.Debug("network namespace cannot be read", "workload", name, "path", path, "err", err)
		}
		return nil
	}
	devices := n.links.devices(ns)
	for i := range devices {
		devices[i].PeerNetns = path
	}
	return devices
}
