// SPDX-License-Identifier: Apache-2.0

package cli

import (
	_ "embed"

	"github.com/spf13/cobra"

	"weir/internal/face/cli/frame"
)

// bashWords replaces a function of Cobra's script that needs the package
// bash-completion, which many servers do not have.
//
//go:embed completion.bash
var bashWords []byte

var shells = []string{"bash", "zsh", "fish"}

func (a commands) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes commands, flags and workload names",
		Long: `Print a script that completes commands, flags and workload names. make install puts it
where the shells look for it. bash looks there only with the package bash-completion;
without it, put the first line of the examples into ~/.bashrc.`,
		Example: `  source <(weir completion bash)
  weir completion bash > /etc/bash_completion.d/weir
  weir completion zsh > "${fpath[1]}/_weir"
  weir completion fish > ~/.config/fish/completions/weir.fish`,
		DisableFlagsInUseLine: true,
		Args:                  frame.Names("SHELL"),
		ValidArgs:             shells,
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(a.Stdout, true); err != nil {
					return err
				}
				_, err := a.Stdout.Write(bashWords)
				return err
			case "zsh":
				return root.GenZshCompletion(a.Stdout)
			case "fish":
				return root.GenFishCompletion(a.Stdout, true)
			}
			return frame.Usagef("SHELL %q: not a shell that is known; write bash, zsh or fish", args[0])
		},
	}
}
