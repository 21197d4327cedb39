// SPDX-License-Identifier: Apache-2.0

// Package memory is state.json: what an agent that starts again has to know and the kernel
// cannot tell it. That is what was set at run time, which class number and which place in the
// order of admission each workload has, and what the sources saw last.
//
//	file := memory.NewFile("/var/lib/weir")
//	state, err := file.Load(log)             // the zero Saved if there is none
//	d := decide.Decide(state.World(config))
//	err = file.Save(memory.Of(d.World, seen)) // writes only what differs
//
// The file is replaced whole, so that after a power cut either the old or the new one is
// there. What it does not do: decide, or find workloads.
package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/decide/labels"
	"weir/internal/host/discover"
)

// stateVersion is the version of the form of state.json.
const stateVersion = 1

// Saved is what the file has.
type Saved struct {
	Version int `json:"version"`
	// Set is what was set at run time, by workload key.
	Set map[string]policy.Change `json:"set"`
	// Groups are those made or changed at run time, by name.
	Groups map[string]policy.Change `json:"groups,omitempty"`
	// Asked is what comes with workloads that no label says, by key, and AskedGroups with
	// groups, by name. An agent that knew neither kept the annotations of pods and namespaces
	// in Set and Groups.
	Asked       map[string]policy.Change `json:"asked"`
	AskedGroups map[string]policy.Change `json:"asked_groups,omitempty"`
	// Attached are the workloads made by "weir attach".
	Attached []config.Attachment `json:"attached"`
	// Numbers are the class numbers, by workload key. The kernel schedules on
	// with them while no agent runs.
	Numbers map[string]plan.ClassID `json:"numbers"`
	// Grants are the mins in force, by link, in the order of their admission.
	Grants map[string][]decide.AdmittedMin `json:"grants"`
	// Tuned is what was set about the controllers of workloads, by key.
	Tuned map[string]decide.Tuned `json:"tuned,omitempty"`
	// Accepted are the fields that were asked for by --accept-gaps, by key.
	Accepted map[string][]string `json:"accepted_gaps,omitempty"`
	// Allocations are the mins set aside for pods.
	Allocations []decide.Allocation `json:"allocations,omitempty"`
	// Seen is what each source saw last: what an agent believes until the source
	// has answered for the first time, so that a slow engine costs no workload its class.
	Seen map[string][]Workload `json:"seen"`
}

// Workload is a discover.Workload without the parts that are of no use later.
type Workload struct {
	Key     string            `json:"key"`
	ID      string            `json:"id,omitempty"`
	Name    string            `json:"name"`
	Kind    string            `json:"kind"`
	Labels  map[string]string `json:"labels,omitempty"`
	Baked   map[string]string `json:"image_labels,omitempty"`
	Devices []Device          `json:"devices,omitempty"`
	Cgroups []string          `json:"cgroups,omitempty"`
	Sockets []string          `json:"sockets,omitempty"`
	Group   string            `json:"group,omitempty"`
	Note    string            `json:"note,omitempty"`
	Ended   bool              `json:"ended,omitempty"` // but a device of it was still there
}

// Device is a network device on the host that a workload had.
type Device struct {
	Name    string `json:"name"`
	Ifindex int    `json:"ifindex"`
	Held    bool   `json:"held,omitempty"` // its other end has left the workload's namespace
}

func keepWorkload(w discover.Workload) Workload {
	k := Workload{Key: w.Key, ID: w.ID, Name: w.Name, Kind: w.Kind, Labels: labels.Own(w.Labels), Baked: w.ImageLabels, Note: w.Note, Cgroups: w.Cgroups, Sockets: w.Sockets, Group: w.Group, Ended: w.Ended}
	for _, d := range w.Devices {
		k.Devices = append(k.Devices, Device{d.Name, d.Ifindex, d.Held})
	}
	return k
}

// Found returns what was kept, with those of its devices that are still there. A
// cgroup that is gone costs nothing: there is nothing to mark.
func (k Workload) Found(there func(name string, ifindex int) bool) discover.Workload {
	w := discover.Workload{Key: k.Key, ID: k.ID, Name: k.Name, Kind: k.Kind, Labels: k.Labels, ImageLabels: k.Baked, Note: k.Note, Cgroups: k.Cgroups, Sockets: k.Sockets, Group: k.Group, Ended: k.Ended}
	for _, d := range k.Devices {
		if there(d.Name, d.Ifindex) {
			w.Devices = append(w.Devices, discover.Device{Name: d.Name, Ifindex: d.Ifindex, Held: d.Held})
		}
	}
	return w
}

// World returns the world of an agent that has seen nothing yet, with what was kept.
func (k Saved) World(c config.Config) decide.World {
	w := decide.World{Config: c, Number: k.Numbers, Grants: k.Grants, Allocations: k.Allocations,
		Set: map[string]policy.Change{}, Groups: map[string]policy.Change{}, Tuned: map[string]decide.Tuned{}, Accepted: map[string][]string{},
		Asked: map[string]policy.Change{}, AskedGroups: map[string]policy.Change{}}
	maps.Copy(w.Asked, k.Asked)
	maps.Copy(w.AskedGroups, k.AskedGroups)
	maps.Copy(w.Tuned, k.Tuned)
	maps.Copy(w.Accepted, k.Accepted)
	maps.Copy(w.Set, k.Set)
	maps.Copy(w.Groups, k.Groups)
	return w
}

// StateFile is a state.json.
type StateFile struct {
	path string
	last []byte // as it is on the disk
}

// NewFile returns the file in a folder, which need not exist.
func NewFile(dir string) *StateFile { return &StateFile{path: filepath.Join(dir, "state.json")} }

// Load reads the file. One that cannot be understood is moved aside, with a line
// in the log, and the agent begins anew: a damaged file must not keep a host
// from being steered.
func (s *StateFile) Load(log *slog.Logger) (Saved, error) {
	text, err := safepath.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Saved{}, nil
	}
	if err != nil {
		return Saved{}, fmt.Errorf("state of the last run: %w", err)
	}
	k, err := decode(text)
	if err != nil {
		aside := s.path + ".damaged"
		log.Error("state of the last run cannot be used, beginning anew; run-time settings are lost", "file", s.path, "kept_as", aside, "err", err)
		if err := os.Rename(s.path, aside); err != nil {
			return Saved{}, fmt.Errorf("move damaged state aside: %w", err)
		}
		return Saved{}, nil
	}
	s.last = text
	return k, nil
}

func decode(text []byte) (Saved, error) {
	var k Saved
	if err := json.Unmarshal(text, &k); err != nil {
		return Saved{}, err
	}
	if k.Version != stateVersion {
		return Saved{}, fmt.Errorf("version %d, this agent writes %d", k.Version, stateVersion)
	}
	for what, layers := range map[string]map[string]policy.Change{"set for": k.Set, "asked for": k.Asked, "group": k.Groups, "asked for group": k.AskedGroups} {
		for key, layer := range layers {
			layer = layer.Known()
			if err := layer.Readable(); err != nil {
				return Saved{}, fmt.Errorf("%s %s: %w", what, key, err)
			}
			layers[key] = layer
		}
	}
	k.annotations()
	return k, nil
}

// annotations takes what an agent that did not know Asked kept of pods and namespaces out of what
// operators set: it undid their settings of pods within half a minute, so all of it was
// annotations.
func (k *Saved) annotations() {
	if k.Asked != nil {
		return
	}
	k.Asked = map[string]policy.Change{}
	for key, layer := range k.Set {
		if strings.HasPrefix(key, workload.Key(workload.KindPod, "")) {
			k.Asked[key] = layer
			delete(k.Set, key)
		}
	}
	for name, layer := range k.Groups {
		if strings.HasPrefix(name, "ns.") { // of a namespace
			if k.AskedGroups == nil {
				k.AskedGroups = map[string]policy.Change{}
			}
			k.AskedGroups[name] = layer
			delete(k.Groups, name)
		}
	}
}

// Save writes the file if it differs from the one on the disk, in such a way
// that after a power cut either the old or the new one is there, whole.
func (s *StateFile) Save(k Saved) error {
	k.Version = stateVersion
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	text = append(text, '\n')
	if bytes.Equal(text, s.last) {
		return nil
	}
	err = safepath.Folder(filepath.Dir(s.path), 0o700)
	if err == nil {
		err = atomicfile.Write(s.path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("keep state: %w", err)
	}
	s.last = text
	return nil
}

// Of returns what state.json keeps of a world, and of what each source saw last.
func Of(w decide.World, seen map[string][]discover.Workload) Saved {
	k := Saved{
		Set:      w.Set,
		Asked:    w.Asked,
		Attached: w.Attached,
		Numbers:  w.Number,
		Grants:   w.Grants,
		Tuned:    w.Tuned,
		Accepted: w.Accepted,
		Seen:     map[string][]Workload{},

		Allocations: w.Allocations,
	}
	if k.Asked == nil {
		k.Asked = map[string]policy.Change{}
	}
	if len(w.Groups) > 0 {
		k.Groups = w.Groups
	}
	if len(w.AskedGroups) > 0 {
		k.AskedGroups = w.AskedGroups
	}
	for source, list := range seen {
		for _, w := range list {
			k.Seen[source] = append(k.Seen[source], keepWorkload(w))
		}
		slices.SortFunc(k.Seen[source], func(x, y Workload) int { return cmp.Compare(x.Key, y.Key) })
	}
	return k
}
