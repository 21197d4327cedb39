// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/version"
)

// This file is the frame of a command line: what weir and weir-lab (package labcli) have in
// common. The exported functions are for weir-lab.

// Streams are the files that the commands of a program print to.
type Streams struct{ Stdout, Stderr io.Writer }

// Run runs the process's arguments as a command line below the root that makeRoot returns,
// with weir's messages and exit codes.
func Run(makeRoot func(Streams) *cobra.Command) int {
	a, ctx, stop := fromProcess()
	defer stop()
	return a.execute(ctx, makeRoot(Streams{a.stdout, a.stderr}), os.Args[1:])
}

// fromProcess returns an app that reads and writes as the process does, and a context that
// ends with an interrupt.
func fromProcess() (a *app, ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends weir at once
	return &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(os.Stdout)}, ctx, stop
}

// NewRoot returns the command weir without any commands below it.
func NewRoot(short, long string) *cobra.Command {
	root := &cobra.Command{Use: "weir", Short: short, Long: long, SilenceErrors: true, SilenceUsage: true}
	asGroup(root)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return checkFlags(c) }
	root.Version = version.String()
	root.SetVersionTemplate("weir {{.Version}}\n")
	// A command that only holds others is no command of its own.
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (or .HasExample (not .HasAvailableSubCommands))}}", 1))
	return root
}

// SocketFlag adds the flag of the agent's socket, which every command takes.
func SocketFlag(root *cobra.Command, socket *string) {
	root.PersistentFlags().StringVar(socket, "socket", cmp.Or(os.Getenv("WEIR_SOCKET"), api.DefaultSocket), "`PATH` of the agent's socket (env WEIR_SOCKET)")
}

// AsGroup makes a command a group of others: alone it prints its help, and with an
// unknown word it names the nearest command.
func AsGroup(c *cobra.Command) { asGroup(c) }

// Names returns a check of how many arguments a command takes; each is named, an optional
// one in brackets as in the usage line.
func Names(args ...string) cobra.PositionalArgs { return names(args...) }

// CompleteFlags has a shell complete the values of flags.
func CompleteFlags(c *cobra.Command, values map[string][]string) { completeFlags(c, values) }

// VerdictsFlag adds the flag of all commands that judge expectations.
func VerdictsFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "verdicts", "", "`FILE` to add a JSON line to for each expectation: what was measured, and whether it holds")
}

// Usagef returns the error of a command line that is wrong; weir ends with exit code 2.
func Usagef(format string, args ...any) error { return usagef(format, args...) }

// Exit returns an error that ends weir with an exit code of the caller's choice; code 0
// without an error is no error. err may be nil: then the caller has printed the reason.
func Exit(code int, err error) error {
	if err == nil && code == exitOK {
		return nil
	}
	return &codeError{code, err}
}
