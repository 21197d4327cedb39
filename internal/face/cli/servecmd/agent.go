// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/base/cgroup"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/serving"
	"weir/internal/face/server"
	"weir/internal/host/daemon"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// agentFlags holds the flags of weir agent that daemon.Overrides does not hold as they
// are.
type agentFlags struct {
	config string
	links  []string
	docker bool
	log    frame.LogFlags
	member membership
	daemon.Overrides
}

// Agent makes weir agent.
func (a Commands) Agent() *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Steer this host's links until told to stop",
		Long: `Steer this host's links: find its containers, promise each its share, and serve the
API and the metrics. Needs root. The configuration is read from ` + config.DefaultPath + `
if that file is there; flags override it. When the agent ends, for any reason, the
kernel goes on scheduling; weir cleanup puts back the former qdiscs.

--link and --egress say which devices to steer and what each can send, egress (upload).
With --ingress what workloads receive by them, ingress (download), is steered as well,
by a pair of devices for each.`,
		Example: `  weir agent --link eth0 --egress 100mbit
  weir agent --link eth0=100mbit --link eth1=1gbit
  weir agent --link eth0 --egress 20mbit --ingress 95mbit
  weir agent --link eth0=100mbit --backend tc --metrics 127.0.0.1:9469
  weir agent --config /etc/weir/weir.yaml --log-format json`,
		Args:              frame.Names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			f.Socket = a.SocketGiven(c)
			if c.Flags().Changed("docker") {
				f.Docker = &f.docker
			}
			if err := f.splitLinks(); err != nil {
				return err
			}
			log, err := f.log.Log(a.Stderr)
			if err != nil {
				return err
			}
			return runAgent(c.Context(), f, log)
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.config, "config", "", "configuration `FILE` (default "+config.DefaultPath+" if it exists)")
	fs.StringArrayVar(&f.links, "link", nil, "device to steer, `DEV` or DEV=RATE, instead of those in the file; may be given several times")
	fs.StringVar(&f.Egress, "egress", "", "`RATE` that each device can send for which --link names none, e.g. 100mbit: egress (upload)")
	fs.StringVar(&f.Ingress, "ingress", "", "`RATE` that each device can receive, e.g. 300mbit: ingress (download); none: not steered")
	fs.BoolVar(&f.Local, "ingress-local", false, "count what workloads receive from this host and from each other as received by the link")
	fs.StringVar(&f.Scheduler, "scheduler", "", "`NAME` of the scheduler: fair, qcon or ancs (default fair)")
	fs.StringVar(&f.Favour, "favour", "", "`WHICH` of latency and cpu the links favour where the two are at odds (default neither)")
	fs.StringVar(&f.Backend, "backend", "", "`NAME` of the backend: auto, bpf or tc (default auto: bpf where the kernel can, else tc); where bpf is demanded and not possible, exit code 3")
	fs.BoolVar(&f.Force, "force", false, "replace a qdisc that another program set on the device")
	fs.BoolVar(&f.docker, "docker", true, "look for Docker's containers")
	fs.StringArrayVar(&f.Metrics, "metrics", nil, "`HOST:PORT` that serves /metrics, e.g. 127.0.0.1:9469; beyond the loopback weir.yaml has to give metrics: {tls: ...}; may be given several times")
	fs.StringVar(&f.StateDir, "state-dir", "", "`FOLDER` where run-time changes are kept (default "+config.Default().StateDir+")")
	f.member.register(fs)
	f.log.Register(c)
	frame.CompleteFlags(c, map[string][]string{
		"scheduler": plan.Schedulers, "backend": plan.Backends, "favour": plan.Favours,
	})
	return c
}

// splitLinks takes each DEV=RATE apart.
func (f *agentFlags) splitLinks() error {
	useless := f.Egress != "" && len(f.links) > 0
	for _, text := range f.links {
		device, rate, both := strings.Cut(text, "=")
		if both && rate == "" {
			return frame.Usagef("--link %q: no rate after the =; write --link %s=100mbit, or --link %s", text, device, device)
		}
		useless = useless && both
		f.Links = append(f.Links, daemon.LinkOverride{Device: device, Egress: rate})
	}
	if useless {
		return frame.Usagef("--egress %q: every --link has a rate of its own; leave one of the two out", f.Egress)
	}
	return nil
}

// runAgent runs the agent and its server until ctx ends or one of them fails.
// The socket and the network namespace are claimed first: if another agent has one
// of them, nothing was touched.
func runAgent(ctx context.Context, f agentFlags, log *slog.Logger) error {
	cgroup.LimitMemory()
	f.Overrides.Manager = f.member.manager
	ag, err := daemon.FromConfig(f.config, f.Overrides, log)
	if err != nil {
		return err
	}
	cfg := ag.Config()
	if cfg.Profile == plan.ProfileSmall {
		daemon.BeginSmall(log)
	}
	front, join, err := f.member.over(cfg).prepare(ag, cfg, log)
	if err != nil {
		return err
	}
	srv := server.New(front, server.Options{Socket: cfg.Socket, Group: cfg.Group, ViewGroup: cfg.ViewGroup, Audit: ag.Audit(), Metrics: cfg.Metrics.Listen, MetricsTLS: cfg.Metrics.TLS,
		Web: serving.PageSettings(cfg.Web, cfg.StateDir), Log: log})
	ag.Observe(srv.Look)
	if err := srv.Listen(); err != nil {
		return err
	}
	mounted, err := device.MountBPFFS(dataplane.Options{})
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	if mounted {
		log.Warn("mounted a BPF file system; what the agent pins there is lost when this mount namespace goes", "path", filepath.Dir(device.DefaultBPFFS),
			"remedy", "start the agent where one is mounted; ip netns exec hides it, nsenter --net=FILE does not")
	}
	claim, err := device.TakeClaim(dataplane.Options{})
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	defer claim.Release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leave, err := join(ctx)
	if err != nil {
		return errors.Join(err, srv.Close())
	}
	defer leave()
	served := make(chan error, 1)
	go func() {
		err := srv.Serve(ctx)
		cancel() // without its server no client could reach the agent
		served <- err
	}()
	go func() {
		notifyReady(ctx, log, func() error { _, err := ag.Status(ctx); return err })
		if cfg.Profile == plan.ProfileSmall {
			daemon.StaySmall(ctx, log)
		}
	}()
	err = ag.Run(ctx)
	serving.Notify(log, "STOPPING=1")
	cancel()
	if err := errors.Join(err, <-served); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("agent ends; the kernel goes on scheduling")
	return nil
}
