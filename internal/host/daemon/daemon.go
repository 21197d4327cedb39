// SPDX-License-Identifier: Apache-2.0

// Package daemon puts an agent together for the host that it runs on: the configuration with
// what the command line says over it, the sources of workloads, the backends of links, the
// meter of goodput, the audit log. It also gives devices back when no agent runs (Cleanup).
//
// Example: weir agent is FromConfig("", Overrides{...}, log), and Run of the result.
//
// It decides nothing about policies; package agent does.
package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"sync"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/base/safepath"
	"weir/internal/base/version"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/agent"
	"weir/internal/host/agent/offload"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/backends"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/goodput"
	"weir/internal/host/dataplane/ifb"
	"weir/internal/host/discover"
	"weir/internal/host/disk"
	"weir/internal/host/localtime"
	"weir/internal/host/rootlock"
	"weir/internal/host/sdn/switchport"
)

// FromConfig makes the agent of this host: its real sources and backends, and
// the configuration at path under the overrides. Path "" means DefaultPath if
// there is a file, and the overrides alone if there is none. The error wraps
// dataplane.ErrNoSupport if they demand the backend bpf and this kernel has no BPF qdiscs.
func FromConfig(path string, flags Overrides, log *slog.Logger) (*agent.Agent, error) {
	var before former
	cilium := ciliumHere() // for the life of this agent: a qdisc reads one or the other
	mask := &maskChoice{log: log}
	load := func() (config.Config, error) {
		c, err := loadConfig(path, flags, before.load)
		c.Cilium = cilium
		if err == nil {
			mask.into(&c)
		}
		return c, err
	}
	c, err := load()
	wrong := err // in the file
	if err == nil && c.Path != "" {
		wrong, err = c.Linkless(), agent.ErrNoLink
	}
	if wrong != nil {
		former, found := instead(cmp.Or(path, config.DefaultPath), flags, c, wrong)
		if !found {
			return nil, err
		}
		c = former
		c.Cilium = cilium
		mask.into(&c)
		log.Error("the configuration file is wrong; the one that was in force before counts", "err", wrong)
	}
	if len(c.Links) == 0 && c.SDN.OVSDB == "" {
		if !c.NoLink {
			return nil, agent.ErrNoLink
		}
		log.Info("nothing is steered until links: names a link", "file", c.Path)
	}
	if c.Backend == plan.BackendBPF {
		if err := backends.Demand(); err != nil {
			return nil, err
		}
	}
	_ = safepath.Folder(c.StateDir, 0o700) // shut before anything is in it; its users say why it cannot be had
	found, err := newSources(c, log)
	if err != nil {
		return nil, err
	}
	changed, _ := found.links.Watch() // as long as the process
	ways, err := newPaths(found.links)
	if err != nil {
		return nil, err
	}
	marks := newMarkWatch(c)
	var ag *agent.Agent
	beneath := func(ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		var looking sync.WaitGroup
		devices, stop := found.links.Watch()
		defer stop()
		looking.Go(func() {
			marks.run(ctx, devices, func(ctx context.Context) ([]string, error) {
				workloads, err := ag.Workloads(ctx)
				return devicesOf(workloads), err
			})
		})
		defer looking.Wait()
		defer cancel()
		return found.links.Run(ctx)
	}
	opts := agent.Options{
		Config: c,
		Devices: agent.Devices{
			Open:    opener(c, log),
			Names:   func() ([]string, error) { return found.links.Names(), nil },
			Index:   found.links.IndexOf,
			Changed: changed,
			Tidy:    func(ctx context.Context, links []config.Link) error { return tidy(ctx, c, links, log) },
		},
		Sources:      found.list,
		Attach:       found,
		Paths:        ways,
		Beneath:      beneath,
		DeviceExists: deviceExists,
		Offload:      offloads(c.StateDir, log),
		OpenSockets: func() (map[plan.ClassID]bool, error) {
			return backends.OpenSockets(dataplane.Options{MarkMask: c.MarkMask, Cilium: c.Cilium, StateDir: c.StateDir}, log)
		},
		Networks:  networks,
		LockLimit: lockLimit(c.StateDir),
		Goodput:   func() (agent.Meter, error) { return goodput.New(c.Carrier()) },
		Version:   version.String(),
		Audit:     audit.New(config.AuditFile(c.StateDir), log),
		Wrong:     wrong,
		Wall:      localtime.New().Wall,

		Down:       newCarriers().down,
		Unwritable: func() []api.Storage { return unwritable(c.StateDir) },
		Late: func() []string {
			if ciliumAmong(found.links.IndexOf) == cilium {
				return nil
			}
			return []string{ciliumLate}
		},

		Log: log,
	}
	if c.Path != "" {
		opts.Load = load
		opts.Accepted = func() error { return before.keep(c.Path, c.StateDir) }
	}
	ports := &switchport.Watch{Address: c.SDN.OVSDB, TLS: c.SDN.TLS, Log: log}
	if c.SDN.OVSDB != "" {
		opts.Ports, opts.PortsStatus = ports.Run, ports.Status
	}
	ag, err = agent.New(opts)
	if err == nil {
		observe(ag, c)
		ag.Observe(marks.look)
		ag.Observe(ports.Look)
	}
	return ag, err
}

// offloads limits the offloaded packets of workloads, and remembers the former limits in a folder.
func offloads(stateDir string, log *slog.Logger) offload.Limits {
	opts := dataplane.Options{StateDir: stateDir}
	return offload.Limits{
		Log: log,
		Set: func(dev discover.Device, capacity policy.Rate) error {
			return device.LimitGSO(opts, dev.PeerNetns, dev.PeerIfindex, device.GSOLimit(capacity))
		},
		Restore: func(dev discover.Device) error {
			return device.RestoreGSOOf(opts, dev.PeerNetns, dev.PeerIfindex)
		},
		RestoreOthers: func(except []int) error { return device.RestoreGSO(opts, except, log) },
	}
}

// loadConfig returns the file that read reads with the command line over it. With a *config.Error
// comes what could be read.
func loadConfig(path string, flags Overrides, read func(string) (config.Config, error)) (config.Config, error) {
	c, err := read(path)
	if err != nil {
		return c, err
	}
	if c, err = flags.over(c); err == nil {
		err = config.CheckFiles(c.Files())
	}
	if err != nil {
		return config.Config{}, err
	}
	return c, nil
}

// instead returns the configuration to begin with where the file is wrong: the one that was in
// force before, if it is kept and it is the file that is wrong. partly has what could be read of
// the file.
func instead(file string, flags Overrides, partly config.Config, wrong error) (c config.Config, found bool) {
	if _, mistaken := errors.AsType[*config.Error](wrong); !mistaken {
		return config.Config{}, false
	}
	dir := cmp.Or(flags.StateDir, partly.StateDir, config.Default().StateDir)
	c, err := loadConfig(file, flags, func(file string) (config.Config, error) { return recall(file, dir) })
	return c, err == nil
}

// opener gets backends: the BPF qdisc where the kernel has it, unless the configuration says
// otherwise.
func opener(c config.Config, log *slog.Logger) func(config.Link) (dataplane.Backend, error) {
	var told sync.Once
	return func(l config.Link) (dataplane.Backend, error) {
		kind, lacks := backends.Choose(c.Backend)
		if lacks != nil {
			told.Do(func() { log.Info("using the tc backend", "why", lacks) })
		}
		opts := dataplane.Options{Force: l.Force, Switch: l.Switch, MarkMask: c.MarkMask, Cilium: c.Cilium, Small: c.Profile == plan.ProfileSmall, StateDir: c.StateDir}
		if l.Direction == policy.Ingress || l.Zone != "" {
			return backends.OpenEnd(kind, ifb.End{IFB: ifbOf(l), Local: l.IngressLocal, Area: l.Area()}, opts, log)
		}
		return backends.Open(kind, l.Device, opts, log)
	}
}

// ifbOf returns the IFB of one of a link's ends.
func ifbOf(l config.Link) device.IFB {
	return device.IFB{Link: l.Device, Zone: l.Zone, Ingress: l.Direction == policy.Ingress}
}

// lockLimit returns what agent.Options.LockLimit is on this host.
func lockLimit(stateDir string) func(config.Link, string) string {
	hz, err := rootlock.CPUHz()
	if err != nil {
		return nil
	}
	return func(l config.Link, backend string) string {
		link := rootlock.Link{Device: l.Device, Direction: l.Direction, Capacity: l.Capacity(), Steered: true}
		limit := rootlock.Of(backend, hz)
		if seen, _ := limit.Warning(link); seen == "" {
			return ""
		}
		if l.Direction != policy.Ingress && l.Zone == "" { // else the qdisc is on an IFB, which had none
			former := formerRoot(l.Device, stateDir)
			link.Root, link.Queues = former.String(), former.Queues
		}
		seen, remedy := limit.Warning(link)
		return seen + "; " + remedy
	}
}

// formerRoot returns the root qdisc that a device has without Weir, the zero value if that is
// not known.
func formerRoot(name, stateDir string) device.Former {
	conn, err := device.Open()
	if err != nil {
		return device.Former{}
	}
	defer conn.Close()
	dev, err := conn.Lookup(name)
	if err != nil {
		return device.Former{}
	}
	former, _ := conn.Former(dev, dataplane.Options{StateDir: stateDir}) // the zero value if it cannot be read
	return former
}

// networks returns the networks of a device, none if it is not there.
func networks(name string) ([]netip.Prefix, error) {
	conn, err := device.Open()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	dev, err := conn.Lookup(name)
	if errors.Is(err, dataplane.ErrNoDevice) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return conn.Networks(dev)
}

// unwritable returns those folders of an agent with this state folder in which nothing can be
// written.
func unwritable(stateDir string) (list []api.Storage) {
	for _, s := range []api.Storage{
		{Path: stateDir, Lost: "what weir set stores and usage are"},
		{Path: filepath.Dir(config.AuditFile(stateDir)), Lost: "the audit log is"},
	} {
		if s.Note = disk.Trouble(s.Path); s.Note != "" && (len(list) == 0 || list[0].Path != s.Path) {
			list = append(list, s)
		}
	}
	return list
}

func deviceExists(name string, ifindex int) bool {
	found, err := net.InterfaceByIndex(ifindex)
	return err == nil && found.Name == name
}
