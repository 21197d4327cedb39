// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	_ "embed"
	"time"

	"github.com/spf13/cobra"
)

// bashWords replaces a function of Cobra's script that needs the package
// bash-completion, which many servers do not have.
//
//go:embed completion.bash
var bashWords []byte

var shells = []string{"bash", "zsh", "fish"}

func (a *app) completionCommand() *cobra.Command {
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
		Args:                  names("SHELL"),
		ValidArgs:             shells,
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				if err := root.GenBashCompletionV2(a.stdout, true); err != nil {
					return err
				}
				_, err := a.stdout.Write(bashWords)
				return err
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			}
			return usagef("SHELL %q: not a shell that is known; write bash, zsh or fish", args[0])
		},
	}
}

// completionTimeout keeps a shell from hanging on an agent that does not answer.
const completionTimeout = time.Second

// completeWorkload offers the names of the workloads there are, each with what
// it is. Without an agent it offers nothing, silently: the command will say why.
func (a *app) completeWorkload(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTimeout)
	defer cancel()
	ws, err := a.client().Workloads(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []cobra.Completion
	for _, w := range ws {
		found = append(found, cobra.CompletionWithDesc(w.Name, w.Kind+", "+w.State))
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}
