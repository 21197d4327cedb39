// SPDX-License-Identifier: Apache-2.0

// Package frame is what all commands of weir and weir-lab have in common: the root command,
// checks of arguments, the flag --output and what it prints, the lines of errors and the exit
// codes.
//
// A command is a *cobra.Command that a package of commands makes (hostcmd, clustercmd,
// servecmd, labcli). It has the App of its program:
//
//	func (a Commands) Explain() *cobra.Command {
//		return a.Printing(&cobra.Command{                         // gives it -o
//			Use:  "explain NAME",
//			Args: frame.Names("NAME"),
//			RunE: func(c *cobra.Command, args []string) error {
//				e, err := a.AgentClient().Explain(c.Context(), args[0])
//				if err != nil {
//					return err                                // becomes a line and an exit code
//				}
//				return a.Print(e, func() string { return renderExplanation(e) })
//			},
//		})
//	}
//
// How quantities are written for people is package human's, columns are package table's. The
// package knows no command.
package frame

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/base/version"
	"weir/internal/face/cli/table"
)

// Streams are the files that the commands of a program print to.
type Streams struct{ Stdout, Stderr io.Writer }

// App holds the state that all commands of a program share.
type App struct {
	Streams
	Stdin    *os.File
	Terminal bool // Stdout is one

	Socket        string // --socket
	ManagerSocket string // --manager-socket
	Format        string // --output: Table, JSON or YAML

	Codes map[error]int // exit codes of errors that parts of this program have

	Args    []string // the command line, without the program
	HelpErr error    // of a help function, which can return none
}

// FromProcess returns an App that reads and writes as the process does, and a context that
// ends with an interrupt.
func FromProcess() (a *App, ctx context.Context, stop func()) {
	ctx, stop = signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends weir at once
	return &App{Streams: Streams{os.Stdout, os.Stderr}, Stdin: os.Stdin, Terminal: isTerminal(os.Stdout)}, ctx, stop
}

// Run runs the process's arguments as a command line below the root that makeRoot returns,
// with weir's messages and exit codes.
func Run(makeRoot func(*App) *cobra.Command) int {
	a, ctx, stop := FromProcess()
	defer stop()
	return a.Execute(ctx, makeRoot(a), os.Args[1:])
}

// Execute runs a command line and returns the exit code, after printing the error.
func (a *App) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	a.Args = args
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.HelpErr
	}
	for _, line := range a.ErrorLines(err) {
		fmt.Fprintln(a.Stderr, "weir: "+table.Clean(line))
	}
	return a.exitCode(err)
}

// AgentClient returns a client of the agent at the socket.
func (a *App) AgentClient() *api.Client { return api.NewClient(a.Socket) }

// ManagerClient returns a client of the manager at its socket.
func (a *App) ManagerClient() api.ManagerClient { return api.NewManagerClient(a.ManagerSocket) }

// NewRoot returns the command weir without any commands below it.
func NewRoot(short, long string) *cobra.Command {
	root := &cobra.Command{Use: "weir", Short: short, Long: long, SilenceErrors: true, SilenceUsage: true}
	AsGroup(root)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return checkFlags(c) }
	showVersion := root.Flags().BoolP("version", "v", false, "version for weir")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *showVersion {
			_, err := fmt.Fprintln(c.OutOrStdout(), "weir "+version.String())
			return err
		}
		return c.Help()
	}
	root.SetUsageFunc(usage(root.UsageFunc()))
	return root
}

// usage returns cobra's text without the line of a command that only holds others: it is no
// command of its own. Cobra's templates could say that too, but they call methods by name: with
// one of them in the program the linker keeps every exported method, which were 8 MB of weir.
func usage(print func(*cobra.Command) error) func(*cobra.Command) error {
	return func(c *cobra.Command) error {
		if c.HasAvailableSubCommands() && !c.HasExample() {
			run := c.RunE
			c.RunE = nil
			defer func() { c.RunE = run }()
		}
		return print(c)
	}
}

// Environment variables that name other sockets than the defaults.
const (
	socketEnv        = "WEIR_SOCKET"
	managerSocketEnv = "WEIR_MANAGER_SOCKET"
)

// SocketFlag adds the flag of the agent's socket, which every command takes.
func SocketFlag(root *cobra.Command, socket *string) {
	root.PersistentFlags().StringVar(socket, "socket", cmp.Or(os.Getenv(socketEnv), api.DefaultSocket), "`PATH` of the agent's socket (env "+socketEnv+")")
}

// SocketGiven returns the agent's socket where a flag or the environment names one, else "".
func (a *App) SocketGiven(c *cobra.Command) string {
	if c.Flags().Changed("socket") || os.Getenv(socketEnv) != "" {
		return a.Socket
	}
	return ""
}

// ManagerSocketFlag adds the flag of the manager's socket. Such a command completes no files
// unless it says otherwise.
func (a *App) ManagerSocketFlag(c *cobra.Command) {
	c.Flags().StringVar(&a.ManagerSocket, "manager-socket", cmp.Or(os.Getenv(managerSocketEnv), api.DefaultManagerSocket), "`PATH` of the manager's socket (env "+managerSocketEnv+")")
	if c.ValidArgsFunction == nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// ManagerSocketGiven returns the manager's socket where a flag or the environment names one,
// else "".
func (a *App) ManagerSocketGiven(c *cobra.Command) string {
	if c.Flags().Changed("manager-socket") || os.Getenv(managerSocketEnv) != "" {
		return a.ManagerSocket
	}
	return ""
}
