// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"weir/internal/base/cgroup"
	"weir/internal/core/workload"
)

// Cgroups is a Source of processes that a person named by their cgroup of version
// 2: systemd's units, by name or pattern, and cgroups by their folder.
//
// It looks for a unit where systemd keeps it, in the file system of cgroups, and notices
// it come and go by watching the folders of its slices; systemd itself is not asked. A
// workload that was given a name stays, without cgroups, while its units do not run. The
// units that a pattern without a name finds come and go.
type Cgroups struct {
	log  *slog.Logger
	read func() cgroup.Hierarchy
	poke chan struct{}

	mu       sync.Mutex
	attached map[string]attachedCgroup // by the workload's name
	patterns map[string][]string       // of units each of which is a workload, as the person said and split
	seen     map[string]fileID         // what was at a path the last time
}

// attachedCgroup is one of both.
type attachedCgroup struct {
	units  []string // names and patterns
	folder string   // as the person said
}

func (a attachedCgroup) String() string {
	if a.folder != "" {
		return a.folder
	}
	return strings.Join(a.units, ",")
}

// NewCgroups returns a Source without workloads.
func NewCgroups(log *slog.Logger) *Cgroups { return newCgroups(log, cgroup.Read) }

func newCgroups(log *slog.Logger, read func() cgroup.Hierarchy) *Cgroups {
	return &Cgroups{log: log, read: read, poke: make(chan struct{}, 1),
		attached: map[string]attachedCgroup{}, patterns: map[string][]string{}, seen: map[string]fileID{}}
}

// Name returns "cgroup".
func (c *Cgroups) Name() string { return "cgroup" }

// Status returns workload.SourceOK, or workload.SourceUnavailable with the reason where a workload
// is to be found by its cgroup and the host has no cgroups to tell processes apart by.
func (c *Cgroups) Status() (state workload.SourceState, note string) {
	c.mu.Lock()
	asked := len(c.attached)+len(c.patterns) > 0
	c.mu.Unlock()
	if !asked {
		return workload.SourceOK, ""
	}
	if trouble := c.read().Trouble(); trouble != "" {
		return workload.SourceUnavailable, trouble
	}
	return workload.SourceOK, ""
}

// AddUnits makes a workload of systemd units: names and patterns as in a shell
// ("worker@*.service"), with commas between them; a name without a type is a
// service's. All of them together are the workload. Without a name, each unit is a
// workload of its own, called like the unit, unless another one names it. It
// refuses units of which none runs, unless told to Wait.
func (c *Cgroups) AddUnits(name, units string, options ...AddOption) error {
	list, err := splitUnits(units)
	if err != nil {
		return err
	}
	if name != "" {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if !slices.Contains(options, Wait) {
		h := c.read()
		if trouble := h.Trouble(); trouble != "" {
			return fmt.Errorf("unit %q cannot be told apart: %s", units, trouble)
		}
		if found, _ := h.Units(matcher(list)); len(found) == 0 {
			return fmt.Errorf("unit %q does not run: there is no cgroup of that name below %s; start it, or write it under attach: in weir.yaml, where it is waited for", units, h.Root)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name == "" {
		c.patterns[units] = list
	} else if err := c.add(name, attachedCgroup{units: list}); err != nil {
		return err
	}
	poke(c.poke)
	return nil
}

// AddCgroup makes a workload of a cgroup of version 2, given by its folder or by
// its path below the mount, as /proc/PID/cgroup has it. It refuses one that does
// not exist, unless told to Wait, and the root, in which everything is.
func (c *Cgroups) AddCgroup(name, folder string, options ...AddOption) error {
	if err := checkName(name); err != nil {
		return err
	}
	if folder == "" {
		return errors.New("cgroup: give a folder such as /sys/fs/cgroup/system.slice/cron.service")
	}
	h := c.read()
	full := below(h.Root, folder)
	if full == h.Root || filepath.Clean(folder) == "/" {
		return fmt.Errorf("cgroup %q is the root, in which all processes are: name one below it", folder)
	}
	if note := cgroup.TooDeep(h.Root, full); note != "" && h.Root != "" {
		return fmt.Errorf("cgroup %q cannot be told apart: %s", folder, note)
	}
	if !slices.Contains(options, Wait) {
		if trouble := h.Trouble(); trouble != "" && h.Root == "" {
			return fmt.Errorf("cgroup %q cannot be told apart: %s", folder, trouble)
		}
		if info, err := os.Stat(full); err != nil || !info.IsDir() {
			return fmt.Errorf("cgroup %q does not exist (%s): name a folder below %s, where cgroups of version 2 are", folder, full, h.Root)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.add(name, attachedCgroup{folder: folder}); err != nil {
		return err
	}
	poke(c.poke)
	return nil
}

// add adds an attachment. Called with mu held.
func (c *Cgroups) add(name string, a attachedCgroup) error {
	if present, taken := c.attached[name]; taken {
		return errTaken(name, present.String())
	}
	c.attached[name] = a
	return nil
}

// LookUnits returns the cgroups of the units that AddUnits would take.
func (c *Cgroups) LookUnits(units string) []string {
	list, err := splitUnits(units)
	if err != nil {
		return nil
	}
	found, _ := c.read().Units(matcher(list))
	return slices.Sorted(maps.Values(found))
}

// LookCgroup returns the cgroup that AddCgroup would take.
func (c *Cgroups) LookCgroup(folder string) []string {
	return []string{below(c.read().Root, folder)}
}

// Remove forgets a workload.
func (c *Cgroups) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.attached[name]; !ok {
		return errUnattached(name, c.attached)
	}
	delete(c.attached, name)
	poke(c.poke)
	return nil
}

// RemoveUnits forgets units that were added without a name.
func (c *Cgroups) RemoveUnits(units string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.patterns[units]; !ok {
		return errUnattached(units, c.patterns)
	}
	delete(c.patterns, units)
	poke(c.poke)
	return nil
}

// Run reports the workloads until ctx ends.
func (c *Cgroups) Run(ctx context.Context, report func([]Workload)) error {
	files, wake, stop := watchWith(ctx, c.log, c.poke)
	defer stop()
	return followPokes(ctx, nil, wake, func() []Workload {
		list, paths := c.list()
		files.want(paths)
		// What came while the folder was not yet watched was not told.
		if again, paths := c.list(); !slices.EqualFunc(list, again, sameCgroups) {
			files.want(paths)
			poke(c.poke)
		}
		return list
	}, report)
}

func sameCgroups(a, b Workload) bool { return a.Key == b.Key && slices.Equal(a.Cgroups, b.Cgroups) }

// list returns the workloads that are there, and the paths to watch for a change of the
// list.
func (c *Cgroups) list() (list []Workload, paths []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.attached)+len(c.patterns) == 0 {
		return nil, nil
	}
	h := c.read()
	named := map[string]bool{} // units that belong to a workload with a name
	s := search{h: h, before: c.seen, now: map[string]fileID{}}
	var wanted []string
	for name, a := range c.attached {
		w := Workload{Key: workload.Key(workload.KindCgroup, name), Name: name, Kind: workload.KindCgroup}
		if a.folder != "" {
			full := below(h.Root, a.folder)
			paths = append(paths, full)
			w.Cgroups = s.present(full)
		} else {
			w.Key, w.Kind = workload.Key(workload.KindUnit, name), workload.KindUnit
			wanted = append(wanted, a.units...)
			for unit, path := range s.units(a.units) {
				named[unit] = true
				w.Cgroups = append(w.Cgroups, s.present(path)...)
			}
			slices.Sort(w.Cgroups)
		}
		if len(w.Cgroups) == 0 {
			w.Note = c.missing(h, a)
		}
		list = append(list, w)
	}
	done := map[string]bool{}
	for _, units := range c.patterns {
		wanted = append(wanted, units...)
		for unit, path := range s.units(units) {
			if cgroups := s.present(path); !named[unit] && !done[unit] && len(cgroups) > 0 {
				done[unit] = true
				list = append(list, Workload{Key: workload.Key(workload.KindUnit, unit), Name: unit, Kind: workload.KindUnit, Cgroups: cgroups})
			}
		}
	}
	if len(wanted) > 0 {
		_, slices := h.Units(func(string) bool { return false })
		for _, dir := range slices {
			paths = append(paths, filepath.Join(dir, "unit"))
		}
	}
	if c.seen = s.now; s.remade {
		poke(c.poke)
	}
	return list, paths
}

// missing says why a workload without cgroups will not get any; "" if it is only
// not running. A cgroup given by its folder may well be beside version 1.
func (c *Cgroups) missing(h cgroup.Hierarchy, a attachedCgroup) string {
	if a.folder != "" && h.Root != "" {
		return ""
	}
	return h.Trouble()
}

// search is one look at the cgroups.
type search struct {
	h           cgroup.Hierarchy
	before, now map[string]fileID
	remade      bool // a folder has been made anew since the last look
}

func (s *search) units(patterns []string) map[string]string {
	units, _ := s.h.Units(matcher(patterns))
	return units
}

// present returns the path, if there is a cgroup. One that took the place of another
// since the last look is left out once: a new cgroup is marked anew only if the receiver
// sees that the old one has gone.
func (s *search) present(path string) []string {
	id, err := identify(path)
	if err != nil {
		return nil
	}
	s.now[path] = id
	if was, known := s.before[path]; known && was != id {
		s.remade = true
		return nil
	}
	return []string{path}
}

// below returns the folder of a cgroup that was given by its folder or by its path below
// the mount.
func below(root, folder string) string {
	folder = filepath.Clean(folder)
	if folder == root || strings.HasPrefix(folder, root+"/") {
		return folder
	}
	return filepath.Join(root, folder)
}

// splitUnits reads a list of units.
func splitUnits(text string) ([]string, error) {
	var list []string
	for unit := range strings.SplitSeq(text, ",") {
		unit = strings.TrimSpace(unit)
		_, err := path.Match(unit, "")
		switch {
		case unit == "":
			return nil, fmt.Errorf("unit %q: give the name of a systemd unit such as nginx.service, or a pattern", text)
		case strings.Contains(unit, "/"):
			return nil, fmt.Errorf("unit %q: a unit's name has no slash; name a folder as a cgroup", unit)
		case err != nil:
			return nil, fmt.Errorf("unit %q is no pattern; write one such as \"worker@*.service\"", unit)
		}
		if !strings.Contains(unit, ".") {
			unit += ".service"
		}
		list = append(list, unit)
	}
	return list, nil
}

// matcher accepts the units of a list. A name is compared as it is, since systemd
// writes backslashes into names.
func matcher(units []string) func(string) bool {
	return func(unit string) bool {
		return slices.ContainsFunc(units, func(u string) bool {
			ok, _ := path.Match(u, unit)
			return ok || u == unit
		})
	}
}
