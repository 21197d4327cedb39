// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"weir/internal/base/program"
	"weir/internal/face/cli/frame"
)

// HandedOver has the commands of weir-lab, each with its line in weir's help. weir shows
// them, and becomes weir-lab when one of them is typed, asked about (weir help lab run) or
// completed.
var HandedOver = map[string]string{
	"demo": "Watch three workloads get what they were promised",
	"lab":  "Try policies on a network of namespaces, with real traffic",
}

// handedOver returns a command that has weir-lab do everything: weir-lab reads the same
// command line from its beginning, so flags are not parsed here.
func (a commands) handedOver(name string) *cobra.Command {
	c := &cobra.Command{
		Use:                name,
		Short:              HandedOver[name],
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return a.becomeLab(name) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			_ = a.becomeLab(name) // a shell that completes shows no errors
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.SetHelpFunc(func(*cobra.Command, []string) { a.HelpErr = a.becomeLab(name) })
	return c
}

// becomeLab replaces this process by weir-lab, with the same arguments and environment; it
// returns only an error.
func (a commands) becomeLab(command string) error {
	path, err := program.Find(program.Lab)
	if err != nil {
		return frame.Exit(frame.ExitNoAgent, fmt.Errorf("%s: %w; make install-lab installs it", command, err))
	}
	err = syscall.Exec(path, append([]string{path}, a.Args...), os.Environ())
	return fmt.Errorf("%s: start %s: %w", command, path, err)
}
