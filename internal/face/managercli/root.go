// SPDX-License-Identifier: Apache-2.0

// Package managercli is the program weir-manager: the commands of weir manager that need the
// cluster's authority, its database and the bus's server, in package cli's frame. A user types
//
//	weir manager serve
//
// and weir becomes weir-manager, with the same arguments (internal/face/cli/frame/handover.go): the
// program that every host runs as root has none of the manager's libraries. The commands that ask a
// manager which runs are weir's own (package clustercmd).
package managercli

import (
	"github.com/spf13/cobra"

	"weir/internal/face/cli/clustercmd"
	"weir/internal/face/cli/frame"
)

// commands makes the commands of this program.
type commands struct{ *frame.App }

// Main runs weir-manager with the process's arguments and returns its exit code.
func Main() int { return frame.Run(Root) }

// Root returns weir's command line as far as weir-manager has it.
func Root(a *frame.App) *cobra.Command {
	own := commands{a}
	root := frame.NewRoot("Manage a cluster of nodes",
		`weir-manager has the commands of weir manager that make and run a cluster's manager.
weir finds this program beside itself or in PATH and becomes it; it can be called by
itself as well.`)
	frame.SocketFlag(root, &a.Socket)
	manager := clustercmd.Group()
	manager.AddCommand(own.initCommand(), own.serveCommand(), own.restoreCommand())
	root.AddCommand(manager)
	return root
}
