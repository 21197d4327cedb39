// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/face/cli/frame"
)

// TestFlagsOfFieldsExist: what a refusal is printed with is a flag of some command.
func TestFlagsOfFieldsExist(t *testing.T) {
	known := map[string]bool{}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root(&frame.App{}))
	for field, flag := range frame.FlagOf {
		if !known[flag] {
			t.Errorf("%s is printed as %s, which no command has", field, flag)
		}
	}
}
