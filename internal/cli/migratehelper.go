// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/cobra"

	"weir/internal/cluster/migrate/remote"
	"weir/internal/config"
)

// migrateHelper is what weir migrate-helper is told.
type migrateHelper struct {
	config    string
	listen    string
	idle      time.Duration
	logFormat string
	verbose   bool
}

func (a *app) migrateHelperCommand() *cobra.Command {
	var m migrateHelper
	c := &cobra.Command{
		Use:   "migrate-helper",
		Short: "Take the steps of migrations for an agent that may not (systemd starts it)",
		Long: `Take the steps of migrations that the agent of this machine asks for: describe, freeze
and restore containers, pack and unpack what travels. CRIU and the engine need nearly all
privileges for that, and weir.service gives the agent few, so that these steps have a
process of their own, which ends when nothing was asked for a while. It serves root alone,
opens nothing to the network, and takes no paths or commands from its caller: the engine
is that of ` + config.DefaultPath + `.

systemd starts it when the agent connects: systemctl enable --now weir-migrate.socket. An
agent that finds no such socket takes the steps itself.`,
		Example: `  systemctl enable --now weir-migrate.socket
  weir migrate-helper --listen /run/weir-migrate.sock --idle 0`,
		Args:              names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := newLog(a.stderr, m.logFormat, m.verbose)
			if err != nil {
				return err
			}
			return m.run(c.Context(), log)
		},
	}
	fs := c.Flags()
	fs.StringVar(&m.config, "config", "", "configuration `FILE` (default "+config.DefaultPath+" if it exists)")
	fs.StringVar(&m.listen, "listen", "", "`PATH` of a socket to make, where systemd hands no socket over (the agent looks at "+remote.Socket+")")
	fs.DurationVar(&m.idle, "idle", 30*time.Second, "how `LONG` to wait for another call; 0 = for ever")
	fs.StringVar(&m.logFormat, "log-format", "text", "`FORMAT` of the log: text or json")
	fs.BoolVarP(&m.verbose, "verbose", "v", false, "log more")
	completeFlags(c, map[string][]string{"log-format": {"text", "json"}})
	return c
}

func (m migrateHelper) run(ctx context.Context, log *slog.Logger) error {
	if m.idle < 0 {
		return usagef("--idle %v: not a duration of 0 or more", m.idle)
	}
	cfg, err := config.Load(cmp.Or(m.config, config.DefaultPath))
	if m.config == "" && errors.Is(err, fs.ErrNotExist) {
		cfg, err = config.Default(), nil
	}
	if err != nil {
		return err
	}
	ln, err := m.open()
	if err != nil {
		return err
	}
	defer ln.Close()
	engine, err := ownEngine(engineKind(ctx, cfg.Docker.Socket), cfg.Docker.Socket, cfg.StateDir, cfg.Cluster.Accept)
	if err != nil {
		return err
	}
	log.Debug("migration helper runs", "socket", ln.Addr().String(), "engine", engine.Kind())
	return errors.Join(remote.NewHelper(engine, m.idle, log.With("component", "migrate-helper")).Serve(ctx, ln), engine.Close())
}

// open takes the socket that systemd hands over, or opens one.
func (m migrateHelper) open() (net.Listener, error) {
	if m.listen == "" {
		list, err := activation.Listeners()
		if err != nil {
			return nil, err
		}
		if len(list) != 1 || list[0] == nil {
			return nil, usagef("systemd handed %d sockets over, and one is needed; start it by weir-migrate.socket, or give --listen PATH", len(list))
		}
		return list[0], nil
	}
	ln, err := net.Listen("unix", m.listen)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(m.listen, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}
