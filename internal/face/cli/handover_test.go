// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"weir/internal/face/cli/frame"
	"weir/internal/face/managercli"
)

// Complete replaces the commands that root hands over by those of the programs that have them, and
// returns the ones that no program has.
func Complete(root *cobra.Command, programs ...*cobra.Command) (missing []string) {
	for _, c := range root.Commands() {
		if frame.ProgramOf(c) == "" {
			missing = append(missing, Complete(c, programs...)...)
			continue
		}
		found := false
		for _, program := range programs {
			path := append(pathOf(root), c.Name())
			if own, rest, err := program.Find(path); err == nil && len(rest) == 0 {
				root.RemoveCommand(c)
				own.Parent().RemoveCommand(own)
				own.GroupID = c.GroupID
				root.AddCommand(own)
				found = true
				break
			}
		}
		if !found {
			missing = append(missing, c.CommandPath())
		}
	}
	return missing
}

// pathOf returns the words of a command below the root.
func pathOf(c *cobra.Command) (path []string) {
	for ; c.HasParent(); c = c.Parent() {
		path = append([]string{c.Name()}, path...)
	}
	return path
}

// runHere runs a command line in this process, the manager's commands included.
func runHere(ctx context.Context, a *frame.App, args []string) int {
	whole := root(a)
	Complete(whole, managercli.Root(a))
	return a.Execute(ctx, whole, args)
}
