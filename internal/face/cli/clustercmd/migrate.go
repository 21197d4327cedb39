// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker"
	"weir/internal/cluster/migrate/podman"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
)

// migration holds the options of weir migrate.
type migration struct {
	migrate.Request
	from, to string
	approach string
	state    string
	dryRun   bool
	resume   bool
}

// Migrate makes weir migrate.
func (a Commands) Migrate() *cobra.Command {
	m := migration{}
	c := a.Printing(&cobra.Command{
		Use:   "migrate NAME --to NODE",
		Short: "Move a running container to another node, with its memory",
		Long: `Move a running container to another node: it is frozen, its memory, its files and its
volumes are sent, and it goes on there, with the same configuration. Obstacles are named
beforehand and nothing is touched; if a step fails later, the container goes on where it
was. docs/migrate.md has the steps, and the containers that cannot be moved.

NODE is the name of a node of the cluster, or an engine of this machine by its socket
(unix:///PATH). The first needs a manager, the second root.

--approach says how the files travel: layer (the container's changes, from node
to node), commit (the same as a layer of an image, through the registry), export (the
whole file system). Without it the fastest that is possible is taken.

--resume takes up migrations that were interrupted: those that were not confirmed go
back.`,
		Example: `  weir migrate web --to b --dry-run
  weir migrate web --to b
  weir migrate web --from unix:///run/a/docker.sock --to unix:///run/b/docker.sock`,
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			if m.resume {
				return a.resumeMigrations(c.Context(), m)
			}
			m.Container = args[0]
			if m.from == "" && !strings.Contains(m.to, "://") {
				return a.migrateInCluster(c.Context(), m)
			}
			return a.migrate(c.Context(), m)
		},
	})
	c.Args = func(c *cobra.Command, args []string) error {
		if m.resume {
			return frame.Names()(c, args)
		}
		if err := frame.Names("NAME")(c, args); err != nil {
			return err
		}
		if m.to == "" {
			return frame.Usagef("--to is missing; write: %s", c.UseLine())
		}
		return nil
	}
	f := c.Flags()
	f.StringVar(&m.to, "to", "", "`NODE` to move it to")
	f.StringVar(&m.from, "from", "", "`ADDRESS` of the engine that it runs in (default DOCKER_HOST, or the default socket)")
	f.StringVar(&m.approach, "approach", "", "`NAME` of the way of its files: layer, commit, export")
	f.StringVar(&m.Registry, "registry", "", "`HOST:PORT` of a registry that both engines use")
	f.BoolVar(&m.CloseConnections, "close-connections", false, "let established TCP connections to elsewhere end")
	f.BoolVar(&m.KeepVolumes, "keep-volumes", false, "leave its volumes behind as well")
	f.StringVar(&m.state, "state", "/var/lib/weir/migrate", "`FOLDER` of the journals")
	f.BoolVar(&m.resume, "resume", false, "finish migrations that were interrupted")
	frame.DryRunFlag(c, &m.dryRun)
	a.ManagerSocketFlag(c)
	frame.CompleteFlags(c, map[string][]string{"approach": {string(migrate.ApproachLayer), string(migrate.ApproachCommit), string(migrate.ApproachExport)}})
	return c
}

// podmanAddress is Podman's on this machine, which has no socket.
const podmanAddress = "podman"

// engineNode opens an engine of this machine as a node that is called by its address.
func engineNode(address, state string, log *slog.Logger) (*migrate.Local, error) {
	if address == podmanAddress {
		e, err := podman.Open(filepath.Join(state, "podman"))
		if err != nil {
			return nil, frame.Usagef("%v", err)
		}
		return migrate.NewLocal(address, e, filepath.Join(state, "nodes", address), log)
	}
	if address != "" && !strings.Contains(address, "://") {
		return nil, frame.Usagef("%q: no manager is known here; name an engine of this machine, such as unix:///run/docker.sock", address)
	}
	e, err := docker.Open(address)
	if err != nil {
		return nil, frame.Usagef("%v", err)
	}
	name := e.Address()
	return migrate.NewLocal(name, e, filepath.Join(state, "nodes", strings.ReplaceAll(strings.TrimPrefix(name, "unix://"), "/", "_")), log)
}

func (a Commands) migrate(ctx context.Context, m migration) error {
	m.Approach = migrate.Approach(m.approach)
	if m.Approach != migrate.ApproachAuto && !slices.Contains(migrate.Approaches, m.Approach) {
		return frame.Usagef("--approach %q: no approach; write layer, commit or export", m.approach)
	}
	m.Move = "m-" + strings.ToLower(rand.Text()[:10])
	source, err := engineNode(m.from, m.state, a.Log())
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := engineNode(m.to, m.state, a.Log())
	if err != nil {
		return err
	}
	defer target.Close()
	plan, err := migrate.Check(ctx, source, target, m.Request)
	if err != nil {
		return migrateError(err)
	}
	if m.dryRun {
		if err := a.Print(plan, func() string { return renderMigrationPlan(plan) }); err != nil {
			return err
		}
		return hindered(plan)
	}
	for _, f := range plan.Findings {
		if !f.Refuses {
			fmt.Fprintln(a.Stderr, "weir: warning: "+table.Clean(f.String()))
		}
	}
	if err := hindered(plan); err != nil {
		return err
	}
	j, err := migrate.Journals{Dir: m.state}.Begin(plan.Order)
	if err != nil {
		return err
	}
	defer j.Close()
	result, err := migrate.Run(ctx, source, target, j, a.stepPrinter())
	return a.printMigration(plan.Order, result, err)
}

// hindered returns a plan's error with its exit code.
func hindered(p migrate.Plan) error {
	if err := p.Err(); err != nil {
		return frame.Exit(frame.ExitRefused, err)
	}
	return nil
}

// migrateError gives a node's answer the exit code that scripts know.
func migrateError(err error) error {
	var e *move.Error
	if errors.As(err, &e) && e.Code == move.CodeNoContainer {
		return frame.Exit(frame.ExitUnknown, err)
	}
	return err
}

// stepPrinter tells each step as it is taken, for people.
func (a Commands) stepPrinter() func(migrate.Progress) {
	if a.Format != frame.Table {
		return nil
	}
	return func(p migrate.Progress) {
		if p.Done {
			fmt.Fprint(a.Stdout, table.Clean(RenderStep(p))+"\n")
		}
	}
}

func (a Commands) printMigration(o migrate.MoveSpec, r migrate.Result, err error) error {
	if err != nil {
		return fmt.Errorf("%w; weir migrate --resume goes on with it", err)
	}
	if err := a.Print(r, func() string { return renderMigration(o, r) }); err != nil {
		return err
	}
	if r.State != wire.MoveDone {
		return frame.Exit(frame.ExitFailed, nil)
	}
	return nil
}

// resumeMigrations resumes interrupted migrations.
func (a Commands) resumeMigrations(ctx context.Context, m migration) error {
	journals := migrate.Journals{Dir: m.state}
	list, err := journals.Unfinished()
	if err != nil {
		return err
	}
	var errs []error
	results := []migrate.Result{}
	for _, j := range list {
		r, err := a.resumeMigration(ctx, m, j)
		results = append(results, r)
		errs = append(errs, err, j.Close())
	}
	if a.Format != frame.Table {
		errs = append(errs, a.Print(results, nil))
	} else if len(list) == 0 {
		fmt.Fprintln(a.Stdout, "no migration was interrupted")
	}
	return errors.Join(errs...)
}

func (a Commands) resumeMigration(ctx context.Context, m migration, j *migrate.Journal) (migrate.Result, error) {
	o := j.Order()
	failed := migrate.Result{Move: o.Move, State: wire.MoveFailed}
	source, err := engineNode(o.From, m.state, a.Log())
	if err != nil {
		return failed, err
	}
	defer source.Close()
	target, err := engineNode(o.To, m.state, a.Log())
	if err != nil {
		return failed, err
	}
	defer target.Close()
	r, err := migrate.Resume(ctx, source, target, j, a.stepPrinter())
	if err == nil && a.Format == frame.Table {
		fmt.Fprint(a.Stdout, table.CleanLines(renderMigration(o, r)))
	}
	return r, err
}

// RenderStep returns the line of a step, such as
//
//	freeze            a        11.7 MB of memory   0.53 s  down
func RenderStep(p migrate.Progress) string {
	what := p.Outcome.Note
	switch {
	case p.Err != "":
		what = p.Err
	case p.Outcome.Bytes > 0 && p.Outcome.Raw > 0:
		what = fmt.Sprintf("%s (%s unpacked)", bytesText(p.Outcome.Bytes), bytesText(p.Outcome.Raw))
	case p.Outcome.Bytes > 0:
		what = bytesText(p.Outcome.Bytes)
	case p.Outcome.Raw > 0:
		what = bytesText(p.Outcome.Raw) + " written"
	}
	down := ""
	if p.Down {
		down = "down"
	}
	return strings.TrimRight(fmt.Sprintf("%-20s %6.2f s  %-4s  %s", p.Step, p.Duration.Seconds(), down, what), " ")
}

// bytesText returns a size in decimal units.
func bytesText(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

func renderMigration(o migrate.MoveSpec, r migrate.Result) string {
	var b strings.Builder
	switch r.State {
	case wire.MoveDone:
		fmt.Fprintf(&b, "%s runs on %s: %s by approach %s\n", o.Container.Name, o.To, RenderCost(r.Downtime, r.Bytes), r.Approach)
	case wire.MoveRolledBack:
		fmt.Fprintf(&b, "%s still runs on %s: %s\n", o.Container.Name, o.From, r.Err)
	default:
		fmt.Fprintf(&b, "%s: %s; see the journal of %s\n", o.Container.Name, r.State, r.Move)
	}
	if r.Warning != "" {
		fmt.Fprintf(&b, "warning: %s\n", r.Warning)
	}
	return b.String()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// RenderCost returns what a migration has cost, as text: "down for 1.75 s, 15.4 MB sent".
func RenderCost(downtime time.Duration, bytes int64) string {
	return fmt.Sprintf("down for %s, %s sent", seconds(downtime), bytesText(bytes))
}

// renderMigrationPlan returns the text of --dry-run.
func renderMigrationPlan(p migrate.Plan) string {
	var b strings.Builder
	c := p.Order.Container
	fmt.Fprintf(&b, "dry run, nothing is touched; %s from %s to %s by approach %s:\n", c.Name, p.Order.From, p.Order.To, p.Order.Approach)
	fmt.Fprintf(&b, "  memory %s, changed files %s, image %s, volumes %d\n", bytesText(c.MemoryBytes), bytesText(c.LayerBytes), bytesText(c.ImageBytes), len(c.Volumes))
	for _, f := range p.Findings {
		if !f.Refuses {
			fmt.Fprintf(&b, "  note: %s\n", f)
		}
	}
	if len(p.Refusals()) == 0 {
		b.WriteString("  nothing speaks against it\n")
	}
	return b.String()
}
