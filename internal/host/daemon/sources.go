// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"log/slog"

	"weir/internal/base/cgroup"
	"weir/internal/config"
	"weir/internal/host/discover"
	"weir/internal/host/discover/hold"
)

// sources are where this host's workloads are looked for. They share one view of
// the network devices.
type sources struct {
	links   *discover.Links
	netns   *discover.Netns
	devices *discover.Devices
	taps    *discover.Taps
	cgroups *discover.Cgroups
	pods    *discover.Pods
	list    []discover.Source
}

func newSources(c config.Config, log *slog.Logger) (*sources, error) {
	links, err := discover.NewLinks(log, "")
	if err != nil {
		return nil, err
	}
	devices := discover.NewDevices(log, links)
	s := &sources{links: links, netns: discover.NewNetns(log, links), devices: devices,
		taps: discover.NewTaps(log, links, devices), cgroups: discover.NewCgroups(log), pods: discover.NewPods(log, links)}
	s.list = []discover.Source{s.netns, s.devices, s.taps, s.cgroups, s.pods}
	if c.Docker.Enabled {
		docker, err := discover.NewDocker(log, links, "unix://"+c.Docker.Socket)
		if err != nil {
			return nil, err
		}
		if c.Docker.Asked {
			docker.Expected()
		}
		s.list = append(s.list, docker)
	}
	ports := hold.New(links)
	for i, src := range s.list {
		s.list[i] = ports.Hold(src)
	}
	if c.Cluster.Manager != "" {
		s.list = append(s.list, discover.Own{config.Migration: movesGroup()})
	}
	return s, nil
}

// Attach implements agent.Attacher.
func (s *sources) Attach(a config.Attachment, wait bool) error {
	var options []discover.AddOption
	if wait {
		options = append(options, discover.Wait)
	}
	switch {
	case a.Pod != "":
		s.pods.Put(a.Name, discover.Pod{ID: a.Pod, Netns: a.Netns, Cgroup: a.Cgroup})
		return nil
	case a.Device != "" && a.Name == "":
		return s.taps.Add(a.Device)
	case a.Device != "":
		return s.devices.Add(a.Name, a.Device, options...)
	case a.Unit != "":
		return s.cgroups.AddUnits(a.Name, a.Unit, options...)
	case a.Cgroup != "":
		return s.cgroups.AddCgroup(a.Name, a.Cgroup, options...)
	}
	return s.netns.Add(a.Name, a.Netns, options...)
}

// Look implements agent.Attacher.
func (s *sources) Look(a config.Attachment) (devices []discover.Device, cgroups []string) {
	switch {
	case a.Pod != "":
		return s.pods.Look(discover.Pod{ID: a.Pod, Netns: a.Netns, Cgroup: a.Cgroup})
	case a.Device != "":
		return s.devices.Look(a.Device), nil
	case a.Unit != "":
		return nil, s.cgroups.LookUnits(a.Unit)
	case a.Cgroup != "":
		return nil, s.cgroups.LookCgroup(a.Cgroup)
	}
	return s.netns.Look(a.Netns), nil
}

// Detach implements agent.Attacher.
func (s *sources) Detach(a config.Attachment) error {
	switch {
	case a.Pod != "":
		return s.pods.Remove(a.Name)
	case a.Device != "" && a.Name == "":
		return s.taps.Remove(a.Device)
	case a.Device != "":
		return s.devices.Remove(a.Name)
	case a.Unit != "" && a.Name == "":
		return s.cgroups.RemoveUnits(a.Unit)
	case a.Unit != "" || a.Cgroup != "":
		return s.cgroups.Remove(a.Name)
	}
	return s.netns.Remove(a.Name)
}

// movesGroup returns the folder of the cgroup of migrations' sockets, none where there can be none:
// the member says why.
func movesGroup() []string {
	g, err := cgroup.NewInner(config.Migration)
	if err != nil {
		return nil
	}
	return []string{g.Path()}
}
