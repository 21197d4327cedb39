// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/dataplane/bpf"
	"weir/internal/dataplane/device"
	"weir/internal/dataplane/goodput"
	"weir/internal/dataplane/ifb"
	"weir/internal/dataplane/tc"
	"weir/internal/discover"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/refusal"
	"weir/internal/sdn/switchport"
	"weir/internal/version"
)

// Overrides are what the command line says over the configuration file. Zero
// values say nothing.
type Overrides struct {
	Links     []LinkOverride // to steer, instead of those in the file
	Egress    string         // capacity of those that have none of their own here
	Ingress   string         // the same of what they receive; "" = as in the file, "none" = not steered
	Local     bool           // count what workloads receive from this host in
	Scheduler string
	Force     bool
	Backend   string
	Docker    *bool // look for containers, or do not
	Socket    string
	StateDir  string
	Metrics   string // host:port
	Manager   string // host:port of the cluster's manager
}

// LinkOverride is one --link DEV or --link DEV=RATE.
type LinkOverride struct {
	Device string
	Egress string // "" = Overrides.Egress, or what the file says
}

func (l LinkOverride) String() string {
	if l.Egress == "" {
		return l.Device
	}
	return l.Device + "=" + l.Egress
}

// FromConfig makes the agent of this host: its real sources and backends, and
// the configuration at path under the overrides. Path "" means DefaultPath if
// there is a file, and the overrides alone if there is none. The error wraps
// dataplane.ErrNoSupport if they demand the backend bpf and this kernel has no BPF qdiscs.
func FromConfig(path string, flags Overrides, log *slog.Logger) (*Agent, error) {
	load := func() (config.Config, error) { return loadConfig(path, flags) }
	c, err := load()
	if err != nil {
		return nil, err
	}
	if len(c.Links) == 0 && c.SDN.OVSDB == "" {
		return nil, ErrNoLink
	}
	if c.Backend == config.BackendBPF {
		if err := bpf.Demand(); err != nil {
			return nil, err
		}
	}
	found, err := newSources(c, log)
	if err != nil {
		return nil, err
	}
	opts := Options{
		Config:       c,
		Open:         opener(c, log),
		Sources:      found.list,
		Attach:       found,
		Beneath:      found.links.Run,
		DeviceExists: deviceExists,
		Devices:      deviceNames,
		LimitOffload: func(dev discover.Device, capacity policy.Rate) error {
			return device.LimitGSO(dataplane.Options{StateDir: c.StateDir}, dev.PeerNetns, dev.PeerIfindex, device.GSOLimit(capacity))
		},
		RestoreOffload: func(dev discover.Device) error {
			return device.RestoreGSOOf(dataplane.Options{StateDir: c.StateDir}, dev.PeerNetns, dev.PeerIfindex)
		},
		Goodput: func() (Meter, error) { return goodput.New(plan.Mask(c.MarkMask)) },
		Version: version.String(),
		Audit:   audit.New(config.AuditFile(c.StateDir), log),
		Log:     log,
	}
	if c.Path != "" {
		opts.Load = load
	}
	if c.SDN.OVSDB != "" {
		watch := &switchport.Watch{Address: c.SDN.OVSDB, TLS: c.SDN.TLS, Log: log}
		opts.Ports, opts.PortsStatus = watch.Run, watch.Status
	}
	return New(opts)
}

func loadConfig(path string, flags Overrides) (config.Config, error) {
	c, err := readConfig(path)
	if err != nil {
		return config.Config{}, err
	}
	return flags.over(c)
}

// readConfig reads the file at path, or, path being "", at the default path if
// there is one. With a *config.Error comes what could be read.
func readConfig(path string) (config.Config, error) {
	c, err := config.Load(cmp.Or(path, config.DefaultPath))
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return config.Default(), nil
	}
	return c, err
}

// over puts what the command line says over a configuration. The errors name
// fields of weir.yaml.
func (o Overrides) over(c config.Config) (config.Config, error) {
	switch {
	case len(o.Links) > 0:
		links, err := o.links(c)
		if err != nil {
			return config.Config{}, err
		}
		c.Links = links
	case o.Egress != "" || o.Ingress != "" || o.Local || o.Scheduler != "" || o.Force:
		return config.Config{}, &refusal.Error{Kind: refusal.Invalid, Field: "link.device", Msg: "is missing", Remedy: "say which device --egress, --ingress, --ingress-local, --scheduler and --force are about"}
	}
	switch o.Backend {
	case "":
	case config.BackendAuto, config.BackendBPF, config.BackendTC:
		c.Backend = o.Backend
	default:
		return config.Config{}, wrong("backend", o.Backend, errors.New("no such backend; write auto, bpf or tc"))
	}
	if o.Docker != nil {
		c.Docker.Enabled = *o.Docker
	}
	if o.Metrics != "" {
		c.Metrics.Listen = o.Metrics
		if err := c.Metrics.Check(); err != nil {
			return config.Config{}, wrong("metrics.listen", o.Metrics, err)
		}
	}
	c.Cluster.Manager = cmp.Or(o.Manager, c.Cluster.Manager)
	c.Socket = cmp.Or(o.Socket, c.Socket)
	c.StateDir = cmp.Or(o.StateDir, c.StateDir)
	return c, nil
}

// links are those of the command line, in its order.
func (o Overrides) links(c config.Config) ([]config.Link, error) {
	var links []config.Link
	for _, named := range o.Links {
		link, err := o.link(c, named)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(links, func(l config.Link) bool { return l.Device == link.Device }) {
			return nil, wrong("link.device", named.String(), errors.New("this device is there twice; name each once"))
		}
		links = append(links, link)
	}
	return links, nil
}

// link is a link of the command line, with what the file says of it.
func (o Overrides) link(c config.Config, named LinkOverride) (config.Link, error) {
	if err := config.CheckLink(named.Device); err != nil {
		return config.Link{}, wrong("link.device", named.Device, err)
	}
	link := config.DefaultLink(named.Device, 0)
	for _, l := range c.Links {
		if l.Device == named.Device {
			link = l
		}
	}
	for _, given := range []struct{ field, value, rate string }{
		{"link.egress", o.Egress, o.Egress}, {"link.device", named.String(), named.Egress},
	} {
		if given.rate == "" {
			continue
		}
		rate, err := policy.ParseRate(given.rate)
		if err != nil {
			return config.Link{}, wrong(given.field, given.value, err)
		}
		link.Egress = rate
	}
	if o.Ingress == "none" {
		link.Ingress = 0
	} else if o.Ingress != "" {
		rate, err := policy.ParseRate(o.Ingress)
		if err != nil {
			return config.Link{}, wrong("link.ingress", o.Ingress, err)
		}
		link.Ingress = rate
	}
	if link.IngressLocal = link.IngressLocal || o.Local; link.IngressLocal && link.Ingress == 0 {
		return config.Link{}, &refusal.Error{Kind: refusal.Invalid, Field: "link.ingress", Msg: "is missing", Remedy: "say what " + named.Device + " can receive, e.g. --ingress 300mbit, or leave --ingress-local out"}
	}
	if link.Egress == 0 {
		return config.Link{}, &refusal.Error{Kind: refusal.Invalid, Field: "link.egress", Msg: "is missing", Remedy: "say what " + named.Device + " can send, e.g. --egress 100mbit or --link " + named.Device + "=100mbit"}
	}
	if o.Scheduler != "" {
		link.Scheduler = o.Scheduler
	}
	link.Force = link.Force || o.Force
	if err := link.Plan().Check(); err != nil {
		return config.Link{}, wrong("link.scheduler", o.Scheduler, err)
	}
	return link, nil
}

// wrong is a mistake in a field that was given beside the configuration.
func wrong(field, value string, err error) error {
	e := api.Mistake(err)
	e.Field, e.Value, e.Msg = field, value, fmt.Sprintf("%q: %s", value, e.Msg)
	return e
}

// opener gets backends: the BPF qdisc where the kernel has it, unless told
// otherwise.
func opener(c config.Config, log *slog.Logger) func(config.Link) (dataplane.Backend, error) {
	var told sync.Once
	open := func(name string, opts dataplane.Options) (dataplane.Backend, error) {
		lacks := bpf.Supported()
		if c.Backend == config.BackendTC || c.Backend == config.BackendAuto && errors.Is(lacks, dataplane.ErrNoSupport) {
			if c.Backend == config.BackendAuto {
				told.Do(func() { log.Info("using the tc backend", "why", lacks) })
			}
			return asBackend(tc.New(name, opts, log))
		}
		return asBackend(bpf.New(name, opts, log))
	}
	return func(l config.Link) (dataplane.Backend, error) {
		opts := dataplane.Options{Force: l.Force, MarkMask: c.MarkMask, StateDir: c.StateDir}
		if l.Direction == policy.Ingress {
			return asBackend(ifb.New(l.Device, opts, l.IngressLocal, open, log))
		}
		return open(l.Device, opts)
	}
}

// asBackend keeps a failed constructor's nil from becoming a backend.
func asBackend[B dataplane.Backend](b B, err error) (dataplane.Backend, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// sources are where this host's workloads are looked for. They share one view of
// the network devices.
type sources struct {
	links   *discover.Links
	netns   *discover.Netns
	devices *discover.Devices
	taps    *discover.Taps
	cgroups *discover.Cgroups
	list    []discover.Source
}

func newSources(c config.Config, log *slog.Logger) (*sources, error) {
	links, err := discover.NewLinks(log, "")
	if err != nil {
		return nil, err
	}
	devices := discover.NewDevices(log, links)
	s := &sources{links: links, netns: discover.NewNetns(log, links), devices: devices,
		taps: discover.NewTaps(log, links, devices), cgroups: discover.NewCgroups(log)}
	s.list = []discover.Source{s.netns, s.devices, s.taps, s.cgroups}
	if c.Docker.Enabled {
		docker, err := discover.NewDocker(log, links, "unix://"+c.Docker.Socket)
		if err != nil {
			return nil, err
		}
		s.list = append(s.list, docker)
	}
	if c.Cluster.Manager != "" {
		s.list = append(s.list, discover.Own{config.Migration})
	}
	return s, nil
}

// Attach implements Attacher.
func (s *sources) Attach(a config.Attachment, wait bool) error {
	var options []discover.AddOption
	if wait {
		options = append(options, discover.Wait)
	}
	switch {
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

// Look implements Attacher.
func (s *sources) Look(a config.Attachment) (devices []discover.Device, cgroups []string) {
	switch {
	case a.Device != "":
		return s.devices.Look(a.Device), nil
	case a.Unit != "":
		return nil, s.cgroups.LookUnits(a.Unit)
	case a.Cgroup != "":
		return nil, s.cgroups.LookCgroup(a.Cgroup)
	}
	return s.netns.Look(a.Netns), nil
}

// Detach implements Attacher.
func (s *sources) Detach(a config.Attachment) error {
	switch {
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

func deviceNames() ([]string, error) {
	all, err := net.Interfaces()
	var names []string
	for _, dev := range all {
		names = append(names, dev.Name)
	}
	return names, err
}

func deviceExists(name string, ifindex int) bool {
	found, err := net.InterfaceByIndex(ifindex)
	return err == nil && found.Name == name
}

// Cleanup gives devices back as Weir found them, an IFB device by removing it; with a
// link goes its IFB. No agent should run. Of the
// configuration it needs where the former qdiscs are remembered and which bits of
// the mark are Weir's; a mistake in it is logged, and what can be read of it counts.
// who asked for it is on record in the audit log.
func Cleanup(ctx context.Context, path string, devices []string, flags Overrides, who audit.Who, log *slog.Logger) error {
	c, err := readConfig(path)
	var mistake *config.Error
	if errors.As(err, &mistake) {
		first, _, _ := strings.Cut(err.Error(), "\n")
		log.Warn("the configuration is wrong; cleaning up by what can be read of it",
			"err", first, "state_dir", cmp.Or(flags.StateDir, c.StateDir))
	} else if err != nil {
		return err
	}
	if c, err = flags.over(c); err != nil {
		return err
	}
	records := audit.New(config.AuditFile(c.StateDir), log)
	defer records.Close()
	return records.Do(ctx, audit.Entry{Who: who, Action: "cleanup", Object: strings.Join(devices, ",")},
		func(ctx context.Context) error { return cleanup(ctx, c, devices, log) })
}

func cleanup(ctx context.Context, c config.Config, devices []string, log *slog.Logger) error {
	conn, err := device.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	var failed []error
	done := func(name string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("cleanup of %s: %w", name, err))
		}
	}
	for _, name := range devices { // before the links that they stand for
		link := conn.IFBLink(name)
		if link == "" {
			link = conn.IFBLink(device.IFBName(name))
		}
		if link != "" {
			done(link+" ingress", cleanupIngress(ctx, c, link, log))
		}
	}
	for _, name := range devices {
		if _, err := conn.Lookup(name); errors.Is(err, dataplane.ErrNoDevice) && device.IsIFBName(name) {
			continue // just removed
		}
		done(name, cleanupLink(ctx, c, name, log))
	}
	failed = append(failed, device.RestoreGSO(dataplane.Options{StateDir: c.StateDir}, log))
	return errors.Join(failed...)
}

// cleanupIngress removes the IFB device of a link.
func cleanupIngress(ctx context.Context, c config.Config, link string, log *slog.Logger) error {
	opts := dataplane.Options{MarkMask: c.MarkMask, StateDir: c.StateDir}
	open := func(name string, opts dataplane.Options) (dataplane.Backend, error) {
		return asBackend(tc.New(name, opts, log))
	}
	b, err := ifb.New(link, opts, false, open, log)
	if err != nil {
		return err
	}
	err = b.Release()
	if err == nil {
		err = cleanupLink(ctx, c, device.IFBName(link), log)
	}
	return errors.Join(err, b.Cleanup(ctx), b.Close())
}

// cleanupLink asks both backends, since the kernel may have been another when
// the link was taken over.
func cleanupLink(ctx context.Context, c config.Config, name string, log *slog.Logger) error {
	opts := dataplane.Options{MarkMask: c.MarkMask, StateDir: c.StateDir}
	var backends []dataplane.Backend
	for _, open := range []func() (dataplane.Backend, error){
		func() (dataplane.Backend, error) { return asBackend(bpf.New(name, opts, log)) },
		func() (dataplane.Backend, error) { return asBackend(tc.New(name, opts, log)) },
	} {
		backend, err := open()
		if err != nil && !errors.Is(err, dataplane.ErrNoSupport) {
			return err
		}
		if err == nil {
			backends = append(backends, backend)
		}
	}
	var failed []error
	for _, backend := range backends {
		failed = append(failed, backend.Cleanup(ctx), backend.Close())
	}
	return errors.Join(failed...)
}
