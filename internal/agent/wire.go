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
	"sync"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/dataplane/bpf"
	"weir/internal/dataplane/device"
	"weir/internal/dataplane/tc"
	"weir/internal/discover"
	"weir/internal/plan"
	"weir/internal/policy"
	"weir/internal/version"
)

// Overrides are what the command line says over the configuration file. Zero
// values say nothing.
type Overrides struct {
	Link      string // device to steer, instead of those in the file
	Egress    string // its capacity, if the file does not say it
	Scheduler string
	Force     bool
	Backend   string
	Docker    *bool // look for containers, or do not
	Socket    string
	StateDir  string
	Metrics   string // host:port
}

// FromConfig makes the agent of this host: its real sources and backends, and
// the configuration at path under the overrides. Path "" means DefaultPath if
// there is a file, and the overrides alone if there is none.
func FromConfig(path string, flags Overrides, log *slog.Logger) (*Agent, error) {
	load := func() (config.Config, error) { return loadConfig(path, flags) }
	c, err := load()
	if err != nil {
		return nil, err
	}
	if len(c.Links) == 0 {
		return nil, errNoLink
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
		LimitOffload: func(dev discover.Device, capacity policy.Rate) error {
			return device.LimitGSO(dataplane.Options{StateDir: c.StateDir}, dev.PeerNetns, dev.PeerIfindex, device.GSOLimit(capacity))
		},
		Version: version.String(),
		Log:     log,
	}
	if c.Path != "" {
		opts.Load = load
	}
	return New(opts)
}

func loadConfig(path string, flags Overrides) (config.Config, error) {
	c, err := config.Load(cmp.Or(path, config.DefaultPath))
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		c, err = config.Default(), nil
	}
	if err != nil {
		return config.Config{}, err
	}
	return flags.over(c)
}

// over puts what the command line says over a configuration. The errors name
// flags.
func (o Overrides) over(c config.Config) (config.Config, error) {
	if o.Link != "" {
		link, err := o.link(c)
		if err != nil {
			return config.Config{}, err
		}
		c.Links = []config.Link{link}
	} else if o.Egress != "" || o.Scheduler != "" || o.Force {
		return config.Config{}, &api.Error{Status: 422, Field: "--link", Msg: "is missing", Remedy: "say which device --egress, --scheduler and --force are about"}
	}
	switch o.Backend {
	case "":
	case config.BackendAuto, config.BackendBPF, config.BackendTC:
		c.Backend = o.Backend
	default:
		return config.Config{}, flagError("backend", o.Backend, errors.New("no such backend; write auto, bpf or tc"))
	}
	if o.Docker != nil {
		c.Docker.Enabled = *o.Docker
	}
	if o.Metrics != "" {
		if _, _, err := net.SplitHostPort(o.Metrics); err != nil {
			return config.Config{}, flagError("metrics", o.Metrics, errors.New("no address; write host:port, e.g. 127.0.0.1:9469"))
		}
	}
	c.Metrics = cmp.Or(o.Metrics, c.Metrics)
	c.Socket = cmp.Or(o.Socket, c.Socket)
	c.StateDir = cmp.Or(o.StateDir, c.StateDir)
	return c, nil
}

// link is the one link of the command line, with what the file says of it.
func (o Overrides) link(c config.Config) (config.Link, error) {
	if err := config.CheckDevice(o.Link); err != nil {
		return config.Link{}, flagError("link", o.Link, err)
	}
	link := config.DefaultLink(o.Link, 0)
	for _, l := range c.Links {
		if l.Device == o.Link {
			link = l
		}
	}
	if o.Egress != "" {
		rate, err := policy.ParseRate(o.Egress)
		if err != nil {
			return config.Link{}, flagError("egress", o.Egress, err)
		}
		link.Egress = rate
	}
	if link.Egress == 0 {
		return config.Link{}, &api.Error{Status: 422, Field: "--egress", Msg: "is missing", Remedy: "say what " + o.Link + " can send, e.g. --egress 100mbit"}
	}
	if o.Scheduler != "" {
		link.Scheduler = o.Scheduler
	}
	link.Force = link.Force || o.Force
	if err := (plan.Link{Device: link.Device, Capacity: link.Egress, Reserve: link.Reservable, Scheduler: link.Scheduler}).Check(); err != nil {
		return config.Link{}, flagError("scheduler", o.Scheduler, err)
	}
	return link, nil
}

// flagError is a mistake on the command line.
func flagError(flag, value string, err error) error {
	e := &api.Error{Status: 422, Field: "--" + flag, Value: value, Msg: fmt.Sprintf("%q: %v", value, err)}
	var mistake *policy.Error
	if errors.As(err, &mistake) {
		e.Msg, e.Remedy = fmt.Sprintf("%q: %s", value, mistake.Msg), mistake.Remedy
	}
	return e
}

// opener gets backends: the BPF qdisc where the kernel has it, unless told
// otherwise.
func opener(c config.Config, log *slog.Logger) func(config.Link) (dataplane.Backend, error) {
	var told sync.Once
	return func(l config.Link) (dataplane.Backend, error) {
		opts := dataplane.Options{Force: l.Force, MarkMask: c.MarkMask, StateDir: c.StateDir}
		lacks := bpf.Supported()
		if c.Backend == config.BackendTC || c.Backend == config.BackendAuto && errors.Is(lacks, dataplane.ErrNoSupport) {
			if c.Backend == config.BackendAuto {
				told.Do(func() { log.Info("using the tc backend", "why", lacks) })
			}
			return asBackend(tc.New(l.Device, opts, log))
		}
		return asBackend(bpf.New(l.Device, opts, log))
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
	list    []discover.Source
}

func newSources(c config.Config, log *slog.Logger) (*sources, error) {
	links, err := discover.NewLinks(log, "")
	if err != nil {
		return nil, err
	}
	s := &sources{links: links, netns: discover.NewNetns(log, links), devices: discover.NewDevices(log, links)}
	s.list = []discover.Source{s.netns, s.devices}
	if c.Docker.Enabled {
		docker, err := discover.NewDocker(log, links, "unix://"+c.Docker.Socket)
		if err != nil {
			return nil, err
		}
		s.list = append(s.list, docker)
	}
	return s, nil
}

// Attach implements Attacher.
func (s *sources) Attach(a config.Attachment, wait bool) error {
	var options []discover.AddOption
	if wait {
		options = append(options, discover.Wait)
	}
	if a.Device != "" {
		return s.devices.Add(a.Name, a.Device, options...)
	}
	return s.netns.Add(a.Name, a.Netns, options...)
}

// Detach implements Attacher.
func (s *sources) Detach(a config.Attachment) error {
	if a.Device != "" {
		return s.devices.Remove(a.Name)
	}
	return s.netns.Remove(a.Name)
}

func deviceExists(name string, ifindex int) bool {
	found, err := net.InterfaceByIndex(ifindex)
	return err == nil && found.Name == name
}

// Cleanup gives links back as Weir found them, whether an agent runs or not: the
// one named, or, only being "", all that the configuration names.
func Cleanup(ctx context.Context, path, only string, flags Overrides, log *slog.Logger) error {
	c, err := loadConfig(path, flags)
	if err != nil {
		return err
	}
	if only != "" {
		c.Links = []config.Link{config.DefaultLink(only, 0)}
	}
	if len(c.Links) == 0 {
		return errNoLink
	}
	var failed []error
	for _, l := range c.Links {
		failed = append(failed, cleanupLink(ctx, c, l, log))
	}
	failed = append(failed, device.RestoreGSO(dataplane.Options{StateDir: c.StateDir}, log))
	return errors.Join(failed...)
}

// cleanupLink asks both backends, since the kernel may have been another when
// the link was taken over.
func cleanupLink(ctx context.Context, c config.Config, l config.Link, log *slog.Logger) error {
	opts := dataplane.Options{Force: l.Force, MarkMask: c.MarkMask, StateDir: c.StateDir}
	var backends []dataplane.Backend
	for _, open := range []func() (dataplane.Backend, error){
		func() (dataplane.Backend, error) { return asBackend(bpf.New(l.Device, opts, log)) },
		func() (dataplane.Backend, error) { return asBackend(tc.New(l.Device, opts, log)) },
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
