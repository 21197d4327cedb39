// SPDX-License-Identifier: Apache-2.0

// Package labcli is the program weir-lab: the commands weir lab and weir demo, in package
// cli's frame of flags, messages and exit codes. A user types
//
//	weir lab run lab/demo/shares.yaml
//
// and weir becomes weir-lab, with the same arguments (internal/face/cli/frame/handover.go).
// Packages lab, cluster and demo do the work. They run this program again inside of their private
// hosts and in containers; three first arguments, which are no commands, are for that.
package labcli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"weir/internal/cluster/clustertest/counter"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/hostcmd"
	"weir/internal/lab"
	"weir/internal/lab/cluster"
	"weir/internal/lab/demo"
)

// app holds the state that all commands share.
type app struct{ frame.Streams }

// Main runs weir-lab with the process's arguments and returns its exit code.
func Main() int {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case lab.ChildArg:
			return lab.Child(os.Args[2:]) // the lab runs this program again in its sandbox
		case demo.ChildArg:
			return demo.Child(os.Args[2:]) // so does the demo
		case cluster.CounterArg:
			fmt.Fprintln(os.Stderr, counter.Main(os.Args[2:])) // in a container of a lab's cluster
			return lab.ExitFailed
		}
	}
	return frame.Run(Root)
}

// Root returns weir's command line as far as weir-lab has it.
func Root(shared *frame.App) *cobra.Command {
	shared.Codes = hostcmd.Codes
	a := app{shared.Streams}
	root := frame.NewRoot("Try Weir: scenarios, clusters and a demonstration on private networks",
		`weir-lab has the commands weir lab and weir demo, which need real traffic, containers
and virtual machines, apart from weir, which runs on hosts as root. weir finds this
program beside itself or in PATH and becomes it; it can be called by itself as well.`)
	frame.SocketFlag(root, new(string)) // no command here speaks with an agent
	root.AddCommand(a.labCommand(), a.demoCommand())
	return root
}
