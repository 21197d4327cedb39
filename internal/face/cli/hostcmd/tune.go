// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/control"
	"weir/internal/core/policy"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// What --method and --direction take.
var (
	tuneMethods = []string{"step", "relay"}
	directions  = []string{string(policy.Egress), string(policy.Ingress)}
)

// Tune makes weir tune.
func (a Commands) Tune() *cobra.Command {
	var req api.TuneRequest
	c := a.Printing(&cobra.Command{
		Use:   "tune NAME",
		Short: "Measure how a workload's goodput answers, and suggest gains",
		Long: `Measure how the goodput of a workload with a reservation answers to its interval,
and suggest gains for its controller. The workload has to send all it can meanwhile;
its rate is moved by a tenth up and down for about a quarter of a minute.

The method step fits delay and time constant to the answer to one step (Ziegler and
Nichols' first method); relay switches between two rates and finds the gain at which
the loop would swing for ever (their second). --apply sets the suggested gains, which
settle without overshoot; those of Ziegler and Nichols' rule are shown beside them. The default gains are right without this.`,
		Example: `  weir tune web
  weir tune web --apply
  weir tune web --method relay
  weir tune web -o json | jq .suggested`,
		Args:              frame.Names("NAME"),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			for _, choice := range []struct {
				flag, value string
				known       []string
			}{{"method", req.Method, tuneMethods}, {"direction", req.Direction, directions}} {
				if choice.value != "" && !slices.Contains(choice.known, choice.value) {
					return frame.Usagef("--%s %q: not known; write %s", choice.flag, choice.value, strings.Join(choice.known, " or "))
				}
			}
			r, err := a.AgentClient().Tune(c.Context(), args[0], req)
			if err != nil {
				return err
			}
			return a.Print(r, func() string { return renderTuning(r) })
		},
	})
	c.Flags().StringVar(&req.Device, "link", "", "`DEV` on which it is held, if there are several")
	c.Flags().StringVar(&req.Direction, "direction", "", "`WAY` that is held: egress (upload, the default) or ingress (download)")
	c.Flags().StringVar(&req.Queue, "queue", "", "`NAME` of the queue that is held, if it is not the workload")
	c.Flags().StringVar(&req.Method, "method", "", "`METHOD` of the experiment: step (the default) or relay")
	c.Flags().BoolVar(&req.Apply, "apply", false, "use the gains that are suggested")
	frame.CompleteFlags(c, map[string][]string{"direction": directions, "method": tuneMethods})
	for _, name := range []string{"link", "queue"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // only fails for a flag that does not exist
	}
	return c
}

// renderTuning returns the text of weir tune.
func renderTuning(r api.TuneResult) string {
	var b strings.Builder
	of := ""
	if r.Queue != "" {
		of = ", queue " + r.Queue
	}
	fmt.Fprintf(&b, "%s on %s, %s%s: goodput in Mbit/s over seconds\n\n", table.Clean(r.Name), r.Device, human.Direction(r.Direction), of)
	b.WriteString(plotTuning(r.Points))
	b.WriteByte('\n')
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-15s  %s\n", name, fmt.Sprintf(format, args...))
	}
	if r.Method == "relay" {
		line("ultimate", "gain %.3g, a swing takes %.3g s", r.UltimateGain, r.UltimatePeriod)
	} else {
		line("answer", "%.1f %% of what is on the wire is payload; delay L %.2f s, time constant T %.2f s", 100*r.Gain, r.Delay, r.Lag)
	}
	line("in use", "%s", control.Gains(r.Before))
	line("Ziegler-Nichols", "%s (%s)", control.Gains(r.ZieglerNichols), r.Verdict)
	line("suggested", "%s", control.Gains(r.Suggested))
	if r.Applied {
		line("applied", "yes; weir control %s --default-gains takes them back", r.Name)
	} else {
		line("applied", "no; --apply does, or weir control %s --gains kc=%.4g,ti=%.4g,td=%.4g", r.Name, r.Suggested.Kc, r.Suggested.Ti, r.Suggested.Td)
	}
	return b.String()
}

// Size of the plot, without its margins.
const (
	plotWidth  = 64
	plotHeight = 12
)

// plotTuning draws the goodput as dots; the rate on the wire is a line of dashes.
func plotTuning(points []api.TunePoint) string {
	if len(points) == 0 {
		return ""
	}
	low, high, end := math.Inf(1), 0.0, 0.0
	for _, p := range points {
		low, high, end = min(low, p.GoodputBps, p.WireBps), max(high, p.GoodputBps, p.WireBps), max(end, p.At)
	}
	margin := max((high-low)*0.05, high*1e-3)
	low, high = max(0, low-margin), high+margin
	cells := make([][]rune, plotHeight)
	for i := range cells {
		cells[i] = []rune(strings.Repeat(" ", plotWidth))
	}
	put := func(at, bps float64, dot rune) {
		x := min(plotWidth-1, int(at/end*plotWidth))
		y := min(plotHeight-1, max(0, int((high-bps)/(high-low)*plotHeight)))
		cells[y][x] = dot
	}
	for _, p := range points {
		put(p.At, p.WireBps, '-')
	}
	for _, p := range points {
		put(p.At, p.GoodputBps, '•')
	}
	var b strings.Builder
	for i, row := range cells {
		label := strings.Repeat(" ", 8)
		if i%3 == 0 {
			label = fmt.Sprintf("%8.2f", (high-(high-low)*(float64(i)+0.5)/plotHeight)/1e6)
		}
		fmt.Fprintf(&b, "%s │%s\n", label, strings.TrimRight(string(row), " "))
	}
	fmt.Fprintf(&b, "%s └%s\n", strings.Repeat(" ", 8), strings.Repeat("─", plotWidth))
	fmt.Fprintf(&b, "%s 0%*.0f s    • goodput  - rate on the wire\n", strings.Repeat(" ", 9), plotWidth-2, end)
	return b.String()
}
