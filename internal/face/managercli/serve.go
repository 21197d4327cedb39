// SPDX-License-Identifier: Apache-2.0

package managercli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api/rest"
	"weir/internal/base/audit"
	"weir/internal/base/cgroup"
	"weir/internal/base/version"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/manager/planning"
	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/migrate/registry"
	"weir/internal/config"
	"weir/internal/core/wire"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/serving"
	"weir/internal/face/server/managerapi"
	"weir/internal/face/server/page"
	"weir/internal/face/web"
)

// managerFlags holds the flags of weir manager serve; "" = not given.
type managerFlags struct {
	config    string
	listen    string
	busListen string
	bus       string
	registry  string
	stateDir  string
	automatic bool
	kafka     config.Kafka
	log       frame.LogFlags
}

// serveCommand makes weir manager serve.
func (a commands) serveCommand() *cobra.Command {
	var f managerFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: frame.Manager.Commands["serve"],
		Long: `Manage the cluster that weir manager init has made. Nodes join at --listen and speak
over a bus: NATS, embedded, at --bus-listen, or an Apache Kafka that is there already.
The configuration is read from ` + config.DefaultPath + ` (manager:) if that file is there; flags count
more. Nodes and moves outlive a restart.`,
		Example: `  weir manager serve
  weir manager serve --automatic
  weir manager serve --bus kafka://k1:9093,k2:9093 --kafka-ca /etc/weir/kafka-ca.pem \
      --kafka-sasl SCRAM-SHA-512 --kafka-user weir-manager --kafka-password-file /etc/weir/kafka-password`,
		Args:              frame.Names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := f.log.Log(a.Stderr)
			if err != nil {
				return err
			}
			cfg, err := f.over(c.Flags().Changed("automatic"))
			if err != nil {
				return err
			}
			cfg.Manager.Socket = cmp.Or(a.ManagerSocketGiven(c), cfg.Manager.Socket)
			return serveManager(c.Context(), cfg, log)
		},
	}
	fs := c.Flags()
	a.ManagerSocketFlag(c)
	fs.StringVar(&f.config, "config", "", "configuration `FILE` (default "+config.DefaultPath+" if it exists)")
	fs.StringVar(&f.listen, "listen", "", "`HOST:PORT` where nodes join (default "+config.DefaultManager().Listen+")")
	fs.StringVar(&f.busListen, "bus-listen", "", "`HOST:PORT` of the embedded bus (default "+config.DefaultManager().BusListen+")")
	fs.StringVar(&f.bus, "bus", "", "`BUS` to use: nats, embedded, or kafka://HOST:PORT,HOST:PORT (default nats)")
	fs.StringVar(&f.registry, "registry", "", "`REGISTRY` for the images of containers that move: embedded, none, or the HOST:PORT of another (default "+config.DefaultManager().Registry+")")
	f.kafkaFlags(fs)
	fs.StringVar(&f.stateDir, "state-dir", "", "`FOLDER` with keys and database (default "+statedir.Default+")")
	fs.BoolVar(&f.automatic, "automatic", false, "move containers without being asked; its limits are in the configuration")
	f.log.Register(c)
	frame.CompleteFlags(c, map[string][]string{"bus": {"nats", "kafka://"}})
	return c
}

// kafkaFlags adds the flags by which the manager connects to the brokers. A password
// comes from a file, because other users of this host can see the command line.
func (f *managerFlags) kafkaFlags(fs *pflag.FlagSet) {
	k := &f.kafka
	fs.StringVar(&k.Files.CA, "kafka-ca", "", "`FILE` with the authority of the brokers' certificates, or system: connect by TLS")
	fs.StringVar(&k.Files.Cert, "kafka-cert", "", "`FILE` with the manager's certificate for the brokers: mutual TLS")
	fs.StringVar(&k.Files.Key, "kafka-key", "", "`FILE` with its key, closed to other users")
	fs.StringVar(&k.Files.ServerName, "kafka-server-name", "", "`NAME` in the brokers' certificates (default the host that is dialled)")
	fs.StringVar(&k.Mechanism, "kafka-sasl", "", "`MECHANISM` by which the manager says who it is: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN")
	fs.StringVar(&k.User, "kafka-user", "", "`NAME` of the manager at the brokers, for --kafka-sasl")
	fs.StringVar(&k.PasswordFile, "kafka-password-file", "", "`FILE` with its password, closed to other users")
}

// kafkaOver puts the flags over the settings of the file.
func (f managerFlags) kafkaOver(k config.Kafka) config.Kafka {
	k.TLS = k.TLS || f.kafka.Files.Given()
	if f.kafka.Files.CA == "system" {
		k.Files.CA = ""
	} else {
		k.Files.CA = cmp.Or(f.kafka.Files.CA, k.Files.CA)
	}
	k.Files.Cert, k.Files.Key = cmp.Or(f.kafka.Files.Cert, k.Files.Cert), cmp.Or(f.kafka.Files.Key, k.Files.Key)
	k.Files.ServerName = cmp.Or(f.kafka.Files.ServerName, k.Files.ServerName)
	k.Mechanism, k.User = cmp.Or(f.kafka.Mechanism, k.Mechanism), cmp.Or(f.kafka.User, k.User)
	k.PasswordFile = cmp.Or(f.kafka.PasswordFile, k.PasswordFile)
	return k
}

// over puts the flags over the configuration file.
func (f managerFlags) over(automatic bool) (config.Config, error) {
	c, err := config.Load(cmp.Or(f.config, config.DefaultPath))
	if f.config == "" && errors.Is(err, fs.ErrNotExist) {
		c, err = config.Default(), nil
	}
	m := &c.Manager
	m.Listen, m.BusListen, m.Bus = cmp.Or(f.listen, m.Listen), cmp.Or(f.busListen, m.BusListen), cmp.Or(f.bus, m.Bus)
	m.Registry = cmp.Or(f.registry, m.Registry)
	m.StateDir = cmp.Or(f.stateDir, m.StateDir)
	m.Kafka = f.kafkaOver(m.Kafka)
	if automatic {
		m.Automatic.Enabled = f.automatic
	}
	return c, err
}

// managerOptions returns the settings as the manager takes them.
func managerOptions(c config.Manager, log *slog.Logger) (manager.Options, error) {
	o := manager.Options{Dir: c.StateDir, Listen: c.Listen, BusListen: c.BusListen,
		Images:    registry.Quota{NodeBytes: c.Images.PerNode, Bytes: c.Images.Total, FreeBytes: c.Images.KeepFree},
		Automatic: planning.DefaultAutomatic(), Version: version.String(), Log: log}
	var err error
	if o.Bus, err = bus.Parse(c.Bus); err != nil {
		return o, frame.Usagef("%v", err)
	}
	if o.Kafka = serving.KafkaSecurity(c.Kafka); o.Bus.Kind != bus.Kafka && o.Kafka != (kafka.Security{}) {
		return o, frame.Usagef("manager.kafka: is given, but the bus is %s; give --bus kafka://HOST:PORT as well", o.Bus)
	}
	if err := o.Kafka.Check(); err != nil {
		return o, frame.Usagef("manager.%v", err)
	}
	a := &o.Automatic
	a.Enabled = c.Automatic.Enabled
	a.Interval, a.Cooldown = cmp.Or(c.Automatic.Interval, a.Interval), cmp.Or(c.Automatic.Cooldown, a.Cooldown)
	a.Hysteresis = cmp.Or(c.Automatic.Hysteresis, a.Hysteresis)
	if c.Automatic.Above != nil {
		a.Above = *c.Automatic.Above
	}
	a.AtOnce, a.PerHour = cmp.Or(c.Automatic.AtOnce, a.AtOnce), cmp.Or(c.Automatic.PerHour, a.PerHour)
	for _, text := range c.Automatic.QuietHours {
		w, err := planning.ParseWindow(text)
		if err != nil {
			return o, frame.Usagef("manager.automatic.quiet_hours: %v", err)
		}
		a.Quiet = append(a.Quiet, w)
	}
	if err := config.CheckRegistry(c.Registry); err != nil {
		return o, frame.Usagef("--registry: %v", err)
	}
	switch c.Registry {
	case config.OwnRegistry:
		o.Registry = wire.OwnRegistry
	case config.NoRegistry:
	default:
		o.Registry = c.Registry
	}
	return o, nil
}

// serveManager runs the manager and its API until ctx ends or one of them fails.
func serveManager(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	cgroup.LimitMemory()
	opts, err := managerOptions(cfg.Manager, log)
	if err != nil {
		return err
	}
	if err := statedir.CheckOwner(cmp.Or(opts.Dir, statedir.Default)); err != nil {
		return err
	}
	if err := config.CheckFiles(cfg.Manager.Files()); err != nil {
		return err
	}
	opts.Audit = audit.New(config.AuditFile(cmp.Or(opts.Dir, statedir.Default)), log)
	defer opts.Audit.Close()
	m, err := manager.New(opts)
	if err != nil {
		return err
	}
	sock, err := rest.Listen(cfg.Manager.Socket, cfg.Group, "manager", log)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	defer sock.Close()
	view, err := rest.ListenView(cfg.Manager.Socket, cfg.ViewGroup, "manager", log)
	if err != nil {
		return errors.Join(err, m.Close())
	}
	if view != nil {
		defer view.Close()
	}
	if err := m.Listen(ctx); err != nil {
		return errors.Join(err, m.Close())
	}
	front := managerapi.New(m, opts.Audit, log.With("component", "server"))
	site := page.New(front, page.Options{Config: serving.PageSettings(cfg.Manager.Web, cmp.Or(opts.Dir, statedir.Default)), Program: web.Manager, Socket: cfg.Manager.Socket, Group: cfg.Group, ViewGroup: cfg.ViewGroup})
	site.Listen()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	servers := []*http.Server{rest.Server(front.Mux, log)}
	go func() { cancel(servers[0].Serve(sock)) }()
	if view != nil {
		servers = append(servers, rest.Server(front.Reading(cfg.Manager.Socket, cfg.Group), log))
		go func() { cancel(servers[1].Serve(view)) }()
	}
	servers = append(servers, site.Serve(ctx))
	serving.Notify(log, "READY=1")
	err = m.Run(ctx)
	serving.Notify(log, "STOPPING=1")
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	log.Info("manager ends; nodes go on without it")
	return errors.Join(err, rest.Shutdown(servers...))
}
