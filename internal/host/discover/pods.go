// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"weir/internal/base/cgroup"
	"weir/internal/core/workload"
	"weir/internal/host/discover/capable"
	"weir/internal/host/discover/within"
)

// Pods is a Source of pods of Kubernetes, as weir-kubernetes names them. A pod is known by the
// veths of its network namespace, whatever their number, and by its cgroup where it has none
// (the host's network), or a macvlan or the like beside them (Multus). It stays, without
// devices, until it is removed, so that a min is there before the pod is.
type Pods struct {
	log   *slog.Logger
	links linkTable
	read  func() cgroup.Hierarchy
	kinds func(netns string) ([]within.Device, error)
	poke  chan struct{}

	mu   sync.Mutex
	pods map[string]Pod    // by the workload's name
	seen map[string]fileID // what was at the path of a cgroup the last time
	// stacked has what was found inside the namespaces of pods, by their workloads' names.
	stacked map[string]inside
	// admins are the pods of which a process was found to have CAP_NET_ADMIN, in its namespace
	// or over the host's, by their workloads' names.
	admins map[string]admin
}

type admin struct {
	pod  Pod
	host bool
}

// inside is what a pod's namespace has that no veth of the host's shows.
type inside struct {
	pod    Pod
	device string // that is stacked on one of the host's
}

// Pod is where a pod is.
type Pod struct {
	ID     string // of its sandbox
	Netns  string // path of its network namespace, "" = the host's, or not known yet
	Cgroup string // folder, or path below the mount; "" = not known
}

// NewPods returns a Source without pods.
func NewPods(log *slog.Logger, links *Links) *Pods { return newPods(log, links, cgroup.Read) }

func newPods(log *slog.Logger, links linkTable, read func() cgroup.Hierarchy) *Pods {
	return &Pods{log: log, links: links, read: read, kinds: within.Devices, poke: make(chan struct{}, 1), pods: map[string]Pod{}, seen: map[string]fileID{}, stacked: map[string]inside{}, admins: map[string]admin{}}
}

// Name returns "pod".
func (p *Pods) Name() string { return "pod" }

// Status returns workload.SourceOK: the kernel is never away.
func (p *Pods) Status() (state workload.SourceState, note string) { return workload.SourceOK, "" }

// Put makes a workload of a pod, or says where that pod is from now on.
func (p *Pods) Put(name string, pod Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pods[name] = pod
	poke(p.poke)
}

// Remove forgets a pod.
func (p *Pods) Remove(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.pods[name]; !ok {
		return errUnattached(name, p.pods)
	}
	delete(p.pods, name)
	delete(p.stacked, name)
	delete(p.admins, name)
	poke(p.poke)
	return nil
}

// Look returns the devices of a pod, and its cgroup if it does not send by them alone.
func (p *Pods) Look(pod Pod) (devices []Device, cgroups []string) {
	h := p.read()
	devices = p.devices("", pod)
	if device, _ := p.look(pod); (len(devices) == 0 || device != "") && pod.Cgroup != "" && h.Root != "" {
		cgroups = []string{below(h.Root, pod.Cgroup)}
	}
	return devices, cgroups
}

// Run reports the pods until ctx ends.
func (p *Pods) Run(ctx context.Context, report func([]Workload)) error {
	files, wake, stop := watchWith(ctx, p.log, p.poke)
	defer stop()
	return follow(ctx, p.links, wake, func() []Workload {
		list, paths := p.list()
		files.want(paths)
		return list
	}, report)
}

// list returns the pods, and the paths to watch for a change of the list.
func (p *Pods) list() (list []Workload, paths []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pods) == 0 {
		return nil, nil
	}
	h := p.read()
	s := search{h: h, before: p.seen, now: map[string]fileID{}}
	for name, pod := range p.pods {
		w := Workload{Key: workload.Key(workload.KindPod, name), ID: pod.ID, Name: name, Kind: workload.KindPod, Devices: p.devices(name, pod)}
		if pod.Netns != "" {
			paths = append(paths, pod.Netns)
		}
		device := ""
		if len(w.Devices) > 0 {
			device = p.beside(name, pod)
		} else {
			device, _ = p.look(pod)
		}
		if pod.Cgroup != "" && (len(w.Devices) == 0 || device != "") {
			if w.Note = h.Trouble(); w.Note != "" && device != "" {
				w.Note = onHostDevice(device) + ": " + w.Note
			}
			if h.Root != "" {
				full := below(h.Root, pod.Cgroup)
				paths = append(paths, full)
				if w.Cgroups, w.Note = s.present(full), cgroup.TooDeep(h.Root, full); w.Note != "" {
					w.Cgroups = nil
				}
				if device != "" {
					paths = append(paths, filepath.Join(full, "container")) // whose processes may have more
					if w.Note == "" && len(w.Cgroups) > 0 && p.administers(name, pod, full, false) {
						w.Note = unheld(onHostDevice(device))
					}
				}
			}
		}
		if pod.Cgroup != "" && h.Root != "" && len(w.Devices) > 0 && device == "" && cgroup.TooDeep(h.Root, below(h.Root, pod.Cgroup)) == "" {
			full := below(h.Root, pod.Cgroup)
			paths = append(paths, full, filepath.Join(full, "container"))
			if w.Sockets = s.present(full); len(w.Sockets) > 0 && p.administers(name, pod, full, true) {
				w.Note = reaching
			}
		}
		list = append(list, w)
	}
	if p.seen = s.now; s.remade {
		poke(p.poke)
	}
	return list, paths
}

// administers reports whether a process of a pod may have CAP_NET_ADMIN, in the host's user
// namespace or in any. Once one was found it stays so: not all of many are looked at each time.
func (p *Pods) administers(name string, pod Pod, folder string, host bool) bool {
	found := admin{pod, host}
	if p.admins[name] == found {
		return true
	}
	is := capable.NetAdmin
	if host {
		is = capable.HostAdmin
	}
	if !capable.AnyOf("/proc", folder, is) {
		return false
	}
	p.admins[name] = found
	return true
}

// beside returns the name of a stacked device in a pod's namespace, "" if there is none. A pod
// is looked at until its devices were listed once: its runtime makes all its interfaces before
// it says that it is there.
func (p *Pods) beside(name string, pod Pod) (device string) {
	if known, ok := p.stacked[name]; ok && known.pod == pod {
		return known.device
	}
	device, seen := p.look(pod)
	if seen {
		p.stacked[name] = inside{pod, device}
	}
	return device
}

// look asks the kernel for a stacked device in a pod's namespace; seen is false if it cannot say.
func (p *Pods) look(pod Pod) (device string, seen bool) {
	if pod.Netns == "" {
		return "", false
	}
	kinds, err := p.kinds(pod.Netns)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Debug("the devices of a pod cannot be listed", "pod", pod.ID, "path", pod.Netns, "err", err)
	}
	return within.Stacked(kinds), err == nil
}

func (p *Pods) devices(name string, pod Pod) []Device {
	if pod.Netns == "" {
		return nil
	}
	ns, err := p.links.resolve(pod.Netns)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			p.log.Debug("network namespace cannot be read", "pod", cmp.Or(name, pod.ID), "path", pod.Netns, "err", err)
		}
		return nil
	}
	devices := slices.Clone(p.links.devices(ns))
	for i := range devices {
		devices[i].PeerNetns = pod.Netns
	}
	return devices
}
