// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/cli/table"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/manager"
	"weir/internal/cluster/migrate/registry"
	"weir/internal/cluster/wire"
	"weir/internal/config"
	"weir/internal/server/rest"
	"weir/internal/version"
)

// managerFlags are those of weir manager serve; "" says nothing.
type managerFlags struct {
	config    string
	listen    string
	busListen string
	bus       string
	registry  string
	stateDir  string
	automatic bool
	kafka     config.Kafka
	logFormat string
	verbose   bool
}

func (a *app) managerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "manager",
		Short: "Manage a cluster of nodes",
		Long: `Manage a cluster: its nodes join by a token, say what their containers use, and move
containers from one to another when the manager says so. docs/cluster.md shows how.`,
	}
	asGroup(c)
	c.AddCommand(a.managerInitCommand(), a.managerServeCommand(), a.managerStatusCommand(), a.managerAuditCommand(), a.managerTokenCommand(), a.managerRemoveCommand(), a.managerRotateCommand(), a.managerSnapshotCommand(), a.managerRestoreCommand())
	return c
}

func (a *app) managerInitCommand() *cobra.Command {
	var dir string
	first := tokenUses(1)
	c := &cobra.Command{
		Use:   "init",
		Short: "Make a new cluster: its authority and a first token",
		Long: `Make a new cluster: an authority that signs the certificates of all nodes, and a first
token by which a node joins within a day. Nothing is started.`,
		Example: `  weir manager init
  weir manager init --uses 5
  weir manager serve`,
		Args: names(),
		RunE: func(c *cobra.Command, _ []string) error {
			token, err := manager.InitFor(dir, int(first), time.Now())
			if err == nil {
				err = manager.HandOver(dir)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, `made a cluster in %s; keep ca.key there secret, and a copy of it elsewhere

start its manager:           weir manager serve     (or: systemctl start weir-manager)
join, on each node, with:    weir agent ... --manager HOST:%d --token-file FILE
where FILE holds this token, for %s within 24 hours
(more: weir manager token create):

%s
`, dir, manager.DefaultPort, first.nodes(), token)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "state-dir", manager.DefaultDir, "`FOLDER` for keys and database")
	c.Flags().Var(&first, "uses", "`NUMBER` of nodes that may join by the first token, or unlimited")
	return c
}

func (a *app) managerServeCommand() *cobra.Command {
	var f managerFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Manage the cluster until told to stop",
		Long: `Manage the cluster that weir manager init has made. Nodes join at --listen and speak
over a bus: NATS, embedded, at --bus-listen, or an Apache Kafka that is there already.
The configuration is read from ` + config.DefaultPath + ` (manager:) if that file is there; flags count
more. Nodes and moves outlive a restart.`,
		Example: `  weir manager serve
  weir manager serve --automatic
  weir manager serve --bus kafka://k1:9093,k2:9093 --kafka-ca /etc/weir/kafka-ca.pem \
      --kafka-sasl SCRAM-SHA-512 --kafka-user weir-manager --kafka-password-file /etc/weir/kafka-password`,
		Args:              names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := newLog(a.stderr, f.logFormat, f.verbose)
			if err != nil {
				return err
			}
			cfg, err := f.over(c.Flags().Changed("automatic"))
			if err != nil {
				return err
			}
			if c.Flags().Changed("manager-socket") || os.Getenv(managerSocketEnv) != "" {
				cfg.Manager.Socket = a.managerSocket
			}
			return serveManager(c.Context(), cfg, log)
		},
	}
	fs := c.Flags()
	a.managerSocketFlag(c)
	fs.StringVar(&f.config, "config", "", "configuration `FILE` (default "+config.DefaultPath+" if it exists)")
	fs.StringVar(&f.listen, "listen", "", "`HOST:PORT` where nodes join (default "+config.DefaultManager().Listen+")")
	fs.StringVar(&f.busListen, "bus-listen", "", "`HOST:PORT` of the embedded bus (default "+config.DefaultManager().BusListen+")")
	fs.StringVar(&f.bus, "bus", "", "`BUS` to use: nats, embedded, or kafka://HOST:PORT,HOST:PORT (default nats)")
	fs.StringVar(&f.registry, "registry", "", "`REGISTRY` for the images of containers that move: embedded, none, or the HOST:PORT of another (default "+config.DefaultManager().Registry+")")
	f.kafkaFlags(fs)
	fs.StringVar(&f.stateDir, "state-dir", "", "`FOLDER` with keys and database (default "+manager.DefaultDir+")")
	fs.BoolVar(&f.automatic, "automatic", false, "move containers without being asked; its limits are in the configuration")
	fs.StringVar(&f.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "log more")
	completeFlags(c, map[string][]string{"log-format": {"text", "json"}, "bus": {"nats", "kafka://"}})
	return c
}

// kafkaFlags say how the manager connects to the brokers. A password is in a file: what
// is on the command line others on this host can see.
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

// kafkaOver puts the flags over what the file says.
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

// managerOptions are the settings as the manager takes them.
func managerOptions(c config.Manager, log *slog.Logger) (manager.Options, error) {
	o := manager.Options{Dir: c.StateDir, Listen: c.Listen, BusListen: c.BusListen,
		Images:    registry.Quota{NodeBytes: c.Images.PerNode, Bytes: c.Images.Total, FreeBytes: c.Images.KeepFree},
		Automatic: manager.DefaultAutomatic(), Version: version.String(), Log: log}
	var err error
	if o.Bus, err = bus.Parse(c.Bus); err != nil {
		return o, usagef("%v", err)
	}
	if o.Kafka = kafkaSecurity(c.Kafka); o.Bus.Kind != bus.Kafka && o.Kafka != (kafka.Security{}) {
		return o, usagef("manager.kafka: is given, but the bus is %s; give --bus kafka://HOST:PORT as well", o.Bus)
	}
	if err := o.Kafka.Check(); err != nil {
		return o, usagef("manager.%v", err)
	}
	a := &o.Automatic
	a.Enabled = c.Automatic.Enabled
	a.Interval, a.Cooldown = cmp.Or(c.Automatic.Interval, a.Interval), cmp.Or(c.Automatic.Cooldown, a.Cooldown)
	a.Hysteresis = cmp.Or(c.Automatic.Hysteresis, a.Hysteresis)
	a.AtOnce, a.PerHour = cmp.Or(c.Automatic.AtOnce, a.AtOnce), cmp.Or(c.Automatic.PerHour, a.PerHour)
	for _, text := range c.Automatic.QuietHours {
		w, err := manager.ParseWindow(text)
		if err != nil {
			return o, usagef("manager.automatic.quiet_hours: %v", err)
		}
		a.Quiet = append(a.Quiet, w)
	}
	if err := config.CheckRegistry(c.Registry); err != nil {
		return o, usagef("--registry: %v", err)
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
	opts, err := managerOptions(cfg.Manager, log)
	if err != nil {
		return err
	}
	if err := manager.CheckOwner(cmp.Or(opts.Dir, manager.DefaultDir)); err != nil {
		return err
	}
	opts.Audit = audit.New(config.AuditFile(cmp.Or(opts.Dir, manager.DefaultDir)), log)
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
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	front := manager.API(m, opts.Audit, log.With("component", "server"))
	servers := []*http.Server{rest.Server(front.Mux, log)}
	go func() { cancel(servers[0].Serve(sock)) }()
	if view != nil {
		servers = append(servers, rest.Server(front.Reading(cfg.Manager.Socket, cfg.Group), log))
		go func() { cancel(servers[1].Serve(view)) }()
	}
	notifySystemd(log, "READY=1")
	err = m.Run(ctx)
	notifySystemd(log, "STOPPING=1")
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	log.Info("manager ends; nodes go on without it")
	return errors.Join(err, rest.Shutdown(servers...))
}

func (a *app) managerStatusCommand() *cobra.Command {
	c := a.printing(&cobra.Command{
		Use:     "status",
		Short:   "Show the manager and what it does by itself",
		Example: `  weir manager status`,
		Args:    names(),
		RunE: func(c *cobra.Command, _ []string) error {
			st, err := a.manager().Cluster(c.Context())
			if err != nil {
				return err
			}
			return a.print(st, func() string { return renderCluster(st, time.Now()) })
		},
	})
	a.managerSocketFlag(c)
	return c
}

func renderCluster(st api.Cluster, now time.Time) string {
	var b strings.Builder
	up := "connected"
	if !st.BusUp {
		up = "out of reach"
	}
	fmt.Fprintf(&b, "manager    %s, up %s, nodes join at %s\n", st.Version, age(now.Sub(st.Started)), st.Address)
	fmt.Fprintf(&b, "bus        %s, %s\n", st.Bus, up)
	fmt.Fprintf(&b, "registry   %s\n", registryText(st.Registry))
	if st.Images != nil {
		b.WriteString(imagesText(*st.Images))
	}
	b.WriteString(authorityText(st.Authority, now))
	fmt.Fprintf(&b, "nodes      %d of %d heard of lately\n", st.NodesUp, st.Nodes)
	fmt.Fprintf(&b, "moves      %d under way, %d waiting\n", st.Running, st.Waiting)
	fmt.Fprintf(&b, "refused    %d messages and requests that were forged or of no member\n", st.Refused)
	auto := st.Automatic
	if !auto.Enabled {
		b.WriteString("automatic  off\n")
		return b.String()
	}
	fmt.Fprintf(&b, "automatic  every %s; S has to fall by %s; a container that moved stays for %s; %d moves at once, %d in an hour\n",
		age(duration(auto.IntervalSeconds)), percent(auto.Hysteresis), age(duration(auto.CooldownSeconds)), auto.MovesAtOnce, auto.MovesPerHour)
	if len(auto.QuietHours) > 0 {
		fmt.Fprintf(&b, "           not from %s\n", strings.Join(auto.QuietHours, ", "))
	}
	if auto.LastResult != "" {
		fmt.Fprintf(&b, "           %s ago: %s\n", age(now.Sub(auto.Last)), auto.LastResult)
	}
	return b.String()
}

func registryText(registry string) string {
	switch registry {
	case "":
		return "none: images go from node to node, and approach commit is not possible"
	case wire.OwnRegistry:
		return "the manager's own, for members"
	}
	return registry
}

// imagesText is how full the manager's registry is, and by whom.
func imagesText(i api.Images) string {
	var b strings.Builder
	fmt.Fprintf(&b, "images     %s of %s", size(i.Bytes), size(i.LimitBytes))
	for _, node := range slices.Sorted(maps.Keys(i.Nodes)) {
		fmt.Fprintf(&b, ", %s %s", cmp.Or(node, "others"), size(i.Nodes[node]))
	}
	fmt.Fprintf(&b, " (of %s each); %d uploads under way, %d requests refused\n", size(i.NodeLimitBytes), i.Uploads, i.Refused)
	return b.String()
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

func (a *app) managerTokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Tokens by which nodes join"}
	asGroup(c)
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var ttl time.Duration
	var req api.TokenRequest
	uses := tokenUses(1)
	c := a.printing(&cobra.Command{
		Use:   "create",
		Short: "Make a token by which nodes can join",
		Long: `Make a token. Who has it can become a node until it expires or is used: pass it on like
a password. It is shown once; the manager keeps only a hash of it. It is for one node
unless --uses says otherwise; a node that did not get the answer may use it again.`,
		Example: `  weir manager token create
  weir manager token create --uses 5
  weir manager token create --ttl 10m --node gateway-7`,
		Args: names(),
		RunE: func(c *cobra.Command, _ []string) error {
			if ttl <= 0 {
				return usagef("--ttl %v: not a duration above 0", ttl)
			}
			req.TTLSeconds, req.Uses = ttl.Seconds(), int(uses)
			t, err := a.manager().NewToken(c.Context(), req)
			if err != nil {
				return err
			}
			return a.print(t, func() string { return t.Token + "\n" })
		},
	})
	c.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how `LONG` it may be used")
	c.Flags().Var(&uses, "uses", "`NUMBER` of nodes that may join by it, or unlimited")
	c.Flags().StringVar(&req.Node, "node", "", "`NAME` of the only node that may use it (default any)")
	a.managerSocketFlag(c)
	return c
}

// tokenUses is how many nodes may join by a token, as a flag.
type tokenUses int

// String implements pflag.Value.
func (u tokenUses) String() string {
	if u == manager.AnyNumber {
		return "unlimited"
	}
	return strconv.Itoa(int(u))
}

// Set implements pflag.Value.
func (u *tokenUses) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case text == "unlimited":
		n = manager.AnyNumber
	case err != nil || n < 1:
		return errors.New("write a number of nodes, 1 or more, or unlimited")
	}
	*u = tokenUses(n)
	return nil
}

// Type implements pflag.Value.
func (tokenUses) Type() string { return "number" }

// nodes says who may use it.
func (u tokenUses) nodes() string {
	switch u {
	case manager.AnyNumber:
		return "any number of nodes"
	case 1:
		return "one node"
	}
	return u.String() + " nodes"
}

func (a *app) tokenListCommand() *cobra.Command {
	c := a.printing(&cobra.Command{
		Use:     "list",
		Short:   "List tokens, without their secrets",
		Example: `  weir manager token list`,
		Args:    names(),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := a.manager().Tokens(c.Context())
			if err != nil {
				return err
			}
			return a.print(list, func() string { return renderTokens(list, time.Now()) })
		},
	})
	a.managerSocketFlag(c)
	return c
}

func renderTokens(list []api.Token, now time.Time) string {
	if len(list) == 0 {
		return "no tokens; weir manager token create makes one\n"
	}
	t := table.New("TOKEN", "NODE", "EXPIRES", ">JOINED", ">OF")
	for _, k := range list {
		expires := "in " + age(k.Expires.Sub(now))
		if !now.Before(k.Expires) {
			expires = "expired " + age(now.Sub(k.Expires)) + " ago"
		}
		t.Add(k.ID, cmp.Or(k.Node, "any"), expires, strconv.Itoa(k.Joined), tokenUses(k.Uses).String())
	}
	return t.String()
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	c := a.printing(&cobra.Command{
		Use:     "revoke ID",
		Short:   "Revoke a token; nodes that joined by it stay",
		Example: `  weir manager token revoke 3fa9c1`,
		Args:    names("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.manager().RevokeToken(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(t, func() string { return "revoked token " + t.ID + "\n" })
		},
	})
	a.managerSocketFlag(c)
	return c
}

func (a *app) managerRemoveCommand() *cobra.Command {
	c := a.printing(&cobra.Command{
		Use:   "remove NODE",
		Short: "Throw a node out of the cluster",
		Long: `Throw a node out of the cluster: its certificate counts no more, and it can join again
only by a new token, after its folder of the cluster was removed there. What runs on it
goes on.`,
		Example: `  weir manager remove gateway-7`,
		Args:    names("NODE"),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := a.manager().RemoveNode(c.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(n, func() string { return "removed node " + n.Name + "\n" })
		},
	})
	a.managerSocketFlag(c)
	return c
}

// managerSocketEnv names another socket of the manager than the default.
const managerSocketEnv = "WEIR_MANAGER_SOCKET"

func (a *app) managerSocketFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.managerSocket, "manager-socket", cmp.Or(os.Getenv(managerSocketEnv), api.DefaultManagerSocket), "`PATH` of the manager's socket (env "+managerSocketEnv+")")
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

func (a *app) manager() api.ManagerClient { return api.NewManagerClient(a.managerSocket) }
