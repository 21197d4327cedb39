// SPDX-License-Identifier: Apache-2.0

// Package cli is the command weir: one file per subcommand, each of which turns arguments
// into one call of package api's Client (or, for agent and cleanup, of the package that
// does the work) and its answer into text. weir hands the commands weir lab and weir demo
// over to another program, weir-lab (package labcli).
//
//	weir set web --min 20mbit
//
// becomes PATCH /v1/workloads/web/policy on the agent's socket and prints the changes.
// Functions from values to strings render the output, so that tests need no agent.
//
// Three rules hold for every command: every answer is available as JSON or YAML (-o),
// every change can be tried (--dry-run), and an error is one line on stderr that begins
// with "weir: " and an exit code that scripts can rely on (see exitCodes).
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/api"
	"weir/internal/cli/table"
)

// app holds the state that all commands share.
type app struct {
	stdin    *os.File
	stdout   io.Writer
	stderr   io.Writer
	terminal bool   // stdout is one
	socket   string // --socket
	format   string // --output

	managerSocket string // --manager-socket

	args          []string // the command line
	notHandedOver error    // of a command of weir-lab's, see handover.go
}

// Main runs weir with the process's arguments and returns its exit code.
func Main() int {
	a, ctx, stop := fromProcess()
	defer stop()
	return a.run(ctx, os.Args[1:])
}

func (a *app) run(ctx context.Context, args []string) int {
	a.args = args
	return a.execute(ctx, a.root(), args)
}

// execute runs a command line and returns the exit code, after printing the error.
func (a *app) execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.notHandedOver
	}
	for _, line := range a.errorLines(err) {
		fmt.Fprintln(a.stderr, "weir: "+table.Clean(line))
	}
	return exitCode(err)
}

func (a *app) client() *api.Client { return api.NewClient(a.socket) }

// Groups of commands in the help text.
const (
	groupLook   = "look"
	groupChange = "change"
	groupRun    = "run"
)

func (a *app) root() *cobra.Command {
	root := NewRoot("Share a host's uplink between containers by weight, min and max",
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
	SocketFlag(root, &a.socket)

	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupLook, a.statusCommand(), a.doctorCommand(), a.getCommand(), a.topCommand(), a.explainCommand(), a.controlCommand(), a.auditCommand(),
		a.nodesCommand(), a.psCommand(), a.planCommand(), a.movesCommand())
	add(groupChange, a.setCommand(), a.groupCommand(), a.attachCommand(), a.detachCommand(), a.tuneCommand(), a.sdnCommand(), a.migrateCommand(), a.rebalanceCommand(), a.cleanupCommand())
	add(groupRun, a.agentCommand(), a.configCommand(), a.managerCommand(), a.migrateHelperCommand(), a.handedOver("demo"), a.handedOver("lab"), a.simulateCommand(), a.versionCommand(), a.completionCommand())
	root.SetHelpCommandGroupID(groupRun)
	return root
}

// asGroup makes a command that only holds others: alone it prints its help, and
// with a word that is none of them it says which one was probably meant.
func asGroup(c *cobra.Command) {
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		c.SuggestionsMinimumDistance = 2
		remedy := c.CommandPath() + " --help lists the commands"
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			remedy = fmt.Sprintf("did you mean %s %s?", c.CommandPath(), strings.Join(near, " or "))
		}
		return usagef("unknown command %q; %s", args[0], remedy)
	}
}

// names makes a check of how many arguments a command takes; each is named, an
// optional one in brackets as in the usage line.
func names(args ...string) cobra.PositionalArgs {
	required := 0
	for _, arg := range args {
		if !strings.HasPrefix(arg, "[") {
			required++
		}
	}
	return func(c *cobra.Command, given []string) error {
		switch {
		case len(given) < required:
			return usagef("%s is missing; write: %s", args[len(given)], c.UseLine())
		case len(given) > len(args):
			return usagef("argument %q is one too many; write: %s", given[len(args)], c.UseLine())
		}
		for i, text := range given {
			if err := checkArgument(c, strings.Trim(args[i], "[]"), text); err != nil {
				return err
			}
		}
		return nil
	}
}

// checkArgument refuses what nothing can be called: an empty text, as a variable of a
// shell that is not set leaves behind, and the dots that lead elsewhere in a path.
func checkArgument(c *cobra.Command, name, text string) error {
	switch {
	case text == "":
		return usagef("%s is empty; write: %s", name, c.UseLine())
	case name == "NAME" && (text == "." || text == ".."):
		return usagef("%s %q: cannot be a name; weir get lists those that there are", name, text)
	}
	return nil
}

// checkFlags refuses a flag that is given an empty text; one that is left out has its
// default.
func checkFlags(c *cobra.Command) error {
	var err error
	c.Flags().Visit(func(f *pflag.Flag) {
		empty := f.Value.Type() == "string" && f.Value.String() == ""
		if list, ok := f.Value.(pflag.SliceValue); ok {
			empty = slices.Contains(list.GetSlice(), "")
		}
		if empty && err == nil {
			err = usagef("--%s is empty; give a value, or leave the flag out", f.Name)
		}
	})
	return err
}
