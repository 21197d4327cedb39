// SPDX-License-Identifier: Apache-2.0

// Package cli is the command weir: the root of its commands, and those that ask neither an
// agent nor a manager. hostcmd has the commands of a host, clustercmd those of a cluster,
// auditcmd both audit logs, webcmd both pages, servecmd the agent and the migration helper; all of
// them stand in the frame of package frame. weir hands some commands over to other programs: weir
// lab and weir demo to weir-lab (package labcli), weir manager init, serve and restore to
// weir-manager (package managercli).
//
//	weir set web --min 20mbit
//
// becomes PATCH /v1/workloads/web/policy on the agent's socket and prints the changes.
//
// Three rules hold for every command: every answer is available as JSON or YAML (-o),
// every change can be tried (--dry-run), and an error is one line on stderr that begins
// with "weir: " and an exit code that scripts can rely on (see frame.ExitCodes).
package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"weir/internal/face/cli/auditcmd"
	"weir/internal/face/cli/clustercmd"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/hostcmd"
	"weir/internal/face/cli/servecmd"
	"weir/internal/face/cli/webcmd"
)

// commands makes the commands of this package.
type commands struct{ *frame.App }

// Main runs weir with the process's arguments and returns its exit code.
func Main() int {
	a, ctx, stop := frame.FromProcess()
	defer stop()
	return run(ctx, a, os.Args[1:])
}

func run(ctx context.Context, a *frame.App, args []string) int {
	return a.Execute(ctx, root(a), args)
}

// Root returns weir's command line, for the manual pages (internal/dev/manual).
func Root() *cobra.Command { return root(&frame.App{}) }

// Groups of commands in the help text.
const (
	groupLook   = "look"
	groupChange = "change"
	groupRun    = "run"
)

func root(a *frame.App) *cobra.Command {
	root := frame.NewRoot("Share a host's uplink between containers by weight, min and max",
		`Weir shares the uplink of a host between its containers, VMs and namespaces: each
has a weight, may have a guaranteed min and a max, and the link is never idle while
anyone has something to send. All rates are egress (upload): what leaves a workload.`)
	root.Example = `  weir agent --link eth0 --egress 100mbit    steer eth0
  weir set web --weight 3 --min 20mbit       promise something to the container web
  weir top                                   watch
  weir explain web                           why web has the rate it has`
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "See what is going on:"},
		&cobra.Group{ID: groupChange, Title: "Change something:"},
		&cobra.Group{ID: groupRun, Title: "Run and try:"},
	)
	frame.SocketFlag(root, &a.Socket)
	a.Codes = hostcmd.Codes

	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	own, host, cluster, audit, web, serve := commands{a}, hostcmd.Commands{App: a}, clustercmd.Commands{App: a}, auditcmd.Commands{App: a}, webcmd.Commands{App: a}, servecmd.Commands{App: a}
	manager := cluster.Manager()
	manager.AddCommand(audit.Manager(), web.Manager())
	for name := range frame.Manager.Commands {
		manager.AddCommand(frame.Manager.Command(a, name))
	}
	add(groupLook, host.Status(), own.doctorCommand(), host.Get(), host.Top(), host.Explain(), host.Verify(), host.Control(), host.Usage(), host.Events(), web.Host(), audit.Host(),
		cluster.Nodes(), cluster.Ps(), cluster.Plan(), cluster.Moves())
	add(groupChange, host.Set(), host.Group(), host.Attach(), host.Detach(), host.Tune(), own.sdnCommand(), cluster.Migrate(), cluster.Rebalance(), own.cleanupCommand())
	add(groupRun, serve.Agent(), own.configCommand(), manager, serve.MigrateHelper(), frame.Lab.Command(a, "demo"), frame.Lab.Command(a, "lab"),
		own.simulateCommand(), own.versionCommand(), own.completionCommand())
	root.SetHelpCommandGroupID(groupRun)
	return root
}
