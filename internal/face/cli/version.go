// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"weir/internal/base/version"
	"weir/internal/face/cli/frame"
)

func (a commands) versionCommand() *cobra.Command {
	return a.Printing(&cobra.Command{
		Use:     "version",
		Short:   "Show which build of weir this is",
		Example: `  weir version -o json`,
		Args:    frame.Names(),
		RunE: func(*cobra.Command, []string) error {
			v := version.Get()
			return a.Print(v, func() string {
				text := fmt.Sprintf("weir %s (%s, %s)\n", v.Version, v.Go, v.Platform)
				if v.Commit != "" {
					text += fmt.Sprintf("commit %s of %s\n", v.Commit, v.Built)
				}
				return text
			})
		},
	})
}
