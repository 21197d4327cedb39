// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
	"weir/internal/face/cli/top"
)

// Top makes weir top.
func (a Commands) Top() *cobra.Command {
	var count int
	c := a.Printing(&cobra.Command{
		Use:   "top",
		Short: "Watch links and workloads live",
		Long: `Watch each workload's rate, its share of the link, the rate that the contract gives
it now (ideal), min and max, backlog, drops and the last minute. Rates are egress
(upload). On anything but a terminal, and with -n, one line per
workload and second; with -o json one object per second.

Keys: q quit, s sort by rate, name, weight, backlog or drops, p pause, arrows select,
enter explain the selected workload.`,
		Example: `  weir top
  weir top -n 3
  weir top -o json | jq -c '.workloads[] | [.name, .links[0].rate_bps]'`,
		Args:              frame.Names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			if count < 0 {
				return frame.Usagef("--count %d: below zero; give how many samples to print, 0 for no end", count)
			}
			client := a.AgentClient()
			if a.Terminal && count == 0 && a.Format == frame.Table {
				return top.Screen(c.Context(), client.Stream, explainText(client), a.Stdin, a.Stdout)
			}
			return top.Lines(c.Context(), client.Stream, count, sampleEncoder(a.Format), a.Stdout, a.Stderr)
		},
	})
	c.Flags().IntVarP(&count, "count", "n", 0, "print `N` samples as lines, 0 for no end")
	return c
}

func explainText(client *api.Client) top.Explain {
	return func(ctx context.Context, name string, group bool) (string, error) {
		ask := client.Explain
		if group {
			ask = client.ExplainGroup
		}
		e, err := ask(ctx, name)
		if err != nil {
			return "", err
		}
		return table.CleanLines(renderExplanation(e)), nil
	}
}

// sampleEncoder makes each sample text: JSON in one line, YAML as a document of
// its own, or a table whose header comes once.
func sampleEncoder(format string) func(api.Sample) ([]byte, error) {
	first := true
	return func(s api.Sample) ([]byte, error) {
		if format == frame.JSON {
			b, err := json.Marshal(s)
			return append(b, '\n'), err
		}
		if format == frame.YAML {
			b, err := frame.Encode(format, s, nil)
			return append([]byte("---\n"), b...), err
		}
		text := top.Plain(s, time.Local)
		if first {
			text, first = top.PlainHeader()+text, false
		}
		return []byte(text), nil
	}
}
