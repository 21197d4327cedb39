// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/control"
	"weir/internal/core/invalid"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// Control makes weir control.
func (a Commands) Control() *cobra.Command {
	var (
		freeze, unfreeze, reset, force bool
		flows                          bool
		gains                          gainsFlag
		dryRun                         bool
	)
	c := a.Printing(&cobra.Command{
		Use:   "control NAME",
		Short: "See how a workload's reservation is held; freeze it, or change its gains",
		Long: `See how a reservation (weir set NAME --reserve) is held: the target and the goodput
that was measured, both in payload, the interval at which packets are let go, and why
it holds or moves.

--flows measures each of its connections for a second instead: payload that arrived,
and retransmissions.

--freeze keeps the interval where it is, until --unfreeze; the schedule goes on to
hold. Gains are the controller's constants; the default is right without tuning, and
weir tune measures others. docs/control.md explains it all.`,
		Example: `  weir control web
  weir control web --flows
  weir control web --freeze
  weir control web --gains kc=0.125,ti=0.146,td=1
  weir control web -o json | jq '.loops[] | [.target_bps, .goodput_bps]'`,
		Args:              frame.Names("NAME"),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			change := api.ControlChange{Gains: gains.gains, DefaultGains: reset, Force: force}
			switch {
			case freeze && unfreeze:
				return frame.Usagef("--freeze and --unfreeze exclude each other; give one of them")
			case freeze || unfreeze:
				change.Freeze = &freeze
			}
			if flows {
				if !change.Empty() {
					return frame.Usagef("--flows only looks; change something without it")
				}
				r, err := a.AgentClient().Flows(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.Print(r, func() string { return renderFlows(r) })
			}
			var r api.Control
			var err error
			if change.Empty() {
				r, err = a.AgentClient().Control(c.Context(), args[0])
			} else {
				r, err = a.AgentClient().SetControl(c.Context(), args[0], change, dryRun)
			}
			if err != nil {
				return err
			}
			return a.Print(r, func() string { return renderControl(r) })
		},
	})
	c.Flags().BoolVar(&flows, "flows", false, "measure each of its connections for a second")
	c.Flags().BoolVar(&freeze, "freeze", false, "keep the interval where it is")
	c.Flags().BoolVar(&unfreeze, "unfreeze", false, "let the controller act again")
	c.Flags().Var(&gains, "gains", "constants of the controller, such as kc=0.125,ti=0.146,td=1; times in seconds")
	c.Flags().BoolVar(&reset, "default-gains", false, "take gains that were set away")
	c.Flags().BoolVar(&force, "force", false, "take gains with which no loop is stable")
	frame.DryRunFlag(c, &dryRun)
	_ = c.RegisterFlagCompletionFunc("gains", cobra.NoFileCompletions) // only fails for a flag that does not exist
	return c
}

// gainsFlag reads kc=0.125,ti=0.146,td=1.
type gainsFlag struct{ gains *api.Gains }

func (f *gainsFlag) String() string { return "" }
func (f *gainsFlag) Type() string   { return "GAINS" }
func (f *gainsFlag) Set(s string) error {
	g, err := parseGains(s)
	if err == nil {
		f.gains = (*api.Gains)(&g)
	}
	return err
}

func parseGains(s string) (control.Gains, error) {
	const remedy = "write kc=0.125,ti=0.146,td=1"
	var g control.Gains
	into := map[string]*float64{"kc": &g.Kc, "ti": &g.Ti, "td": &g.Td}
	for part := range strings.SplitSeq(s, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(part), "=")
		value, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64)
		if into[name] == nil || err != nil {
			return g, &invalid.Error{Value: s, Msg: "not gains", Remedy: remedy}
		}
		*into[name] = value
	}
	return g, g.Check()
}

// renderControl returns the text of weir control.
func renderControl(c api.Control) string {
	if len(c.Loops) == 0 {
		return fmt.Sprintf("%s has no reservation in force; set one by weir set %s --reserve 10mbit\n", c.Name, c.Name)
	}
	var b strings.Builder
	for i, l := range c.Loops {
		if i > 0 {
			b.WriteByte('\n')
		}
		of := ""
		if l.Queue != "" {
			of = ", queue " + l.Queue
		}
		fmt.Fprintf(&b, "%s on %s, %s%s\n", table.Clean(c.Name), l.Device, human.Direction(l.Direction), of)
		line := func(name, format string, args ...any) {
			fmt.Fprintf(&b, "  %-10s  %s\n", name, fmt.Sprintf(format, args...))
		}
		line("target", "%s of payload", human.Measured(l.TargetBps))
		if l.GoodputBps == nil {
			line("goodput", "not measured")
		} else {
			line("goodput", "%s, error %+.2f %%", precise(*l.GoodputBps), -100*(*l.ErrorBps)/l.TargetBps)
		}
		line("interval", "%.4g ns for each byte on the wire, which is %s", l.IntervalNs, precise(l.WireBps))
		line("limiter", "%s; %s offered on the wire, averaged", l.Limiter, human.Measured(l.OfferedBps))
		line("state", "%s: %s", l.Mode, l.Why)
		line("gains", "%s%s", control.Gains(l.Gains), bracketed(l.Warning))
		if l.SentBytes > 0 {
			line("sent again", "%.3g %% of the payload", 100*float64(l.ResentBytes)/float64(l.SentBytes))
		}
	}
	return b.String()
}

// renderFlows returns the text of weir control --flows.
func renderFlows(f api.Flows) string {
	if len(f.Flows) == 0 {
		return fmt.Sprintf("%s: no connection moved any payload in %.1f s\n", table.Clean(f.Name), f.Seconds)
	}
	t := table.New("PROTOCOL", "LOCAL", "REMOTE", "QUEUE", ">SENT", ">RECEIVED", ">SENT AGAIN")
	rate := func(bps float64) string {
		if bps == 0 {
			return "-"
		}
		return precise(bps)
	}
	for _, x := range f.Flows {
		t.Add(x.Protocol, x.Local, x.Remote, cmp.Or(x.Queue, "-"), rate(x.SentBps), rate(x.ReceivedBps), rate(x.ResentBps))
	}
	return fmt.Sprintf("%s: payload of each connection over %.1f s\n\n%s", table.Clean(f.Name), f.Seconds, t)
}

// precise returns a rate with four digits: the errors that it is about are below a
// percent.
func precise(bps float64) string {
	switch {
	case bps >= 1e9:
		return fmt.Sprintf("%.4g Gbit/s", bps/1e9)
	case bps >= 1e6:
		return fmt.Sprintf("%.4g Mbit/s", bps/1e6)
	case bps >= 1e3:
		return fmt.Sprintf("%.4g kbit/s", bps/1e3)
	}
	return fmt.Sprintf("%.4g bit/s", bps)
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
