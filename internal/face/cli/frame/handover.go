// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"weir/internal/base/program"
)

// Handover has the commands of another program of Weir's, each with its line in weir's help.
// weir shows them, and becomes that program when one of them is typed, asked about (weir help
// lab run) or completed.
type Handover struct {
	Program  string            // its file's name
	Remedy   string            // where it is missing
	Commands map[string]string // name to line
}

// What weir hands over.
var (
	Lab = Handover{program.Lab, "install the package weir-lab, or run make install-lab", map[string]string{
		"demo": "Watch three workloads get what they were promised",
		"lab":  "Try policies on a network of namespaces, with real traffic",
	}}
	// Manager has commands below weir manager.
	Manager = Handover{program.Manager, "install the package weir-manager, or run make install-manager", map[string]string{
		"init":    "Make a new cluster: its authority and a first token",
		"serve":   "Manage the cluster until told to stop",
		"restore": "Make a manager's state out of a snapshot",
	}}
)

// handed is the annotation of a command that another program has.
const handed = "program"

// ProgramOf returns the program that has a command, "" for the one that shows it.
func ProgramOf(c *cobra.Command) string { return c.Annotations[handed] }

// Command returns a command that has the other program do everything: that one reads the same
// command line from its beginning, so flags are not parsed here.
func (h Handover) Command(a *App, name string) *cobra.Command {
	c := &cobra.Command{
		Use:                name,
		Short:              h.Commands[name],
		Annotations:        map[string]string{handed: h.Program},
		DisableFlagParsing: true,
		RunE:               func(c *cobra.Command, _ []string) error { return h.become(a, c) },
		ValidArgsFunction: func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			_ = h.become(a, c) // a shell that completes shows no errors
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { a.HelpErr = h.become(a, c) })
	return c
}

// become replaces this process by the other program, with the same arguments and environment;
// it returns only an error.
func (h Handover) become(a *App, c *cobra.Command) error {
	_, command, _ := strings.Cut(c.CommandPath(), " ")
	path, err := program.Find(h.Program)
	if err != nil {
		return Exit(ExitNoAgent, fmt.Errorf("%s: %w; %s", command, err, h.Remedy))
	}
	err = syscall.Exec(path, append([]string{path}, a.Args...), os.Environ())
	return fmt.Errorf("%s: start %s: %w", command, path, err)
}
