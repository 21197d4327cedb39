// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/config"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/table"
	"weir/internal/host/doctor"
)

func (a commands) doctorCommand() *cobra.Command {
	var o doctor.Options
	c := a.Printing(&cobra.Command{
		Use:   "doctor",
		Short: "Look for what on this host is in Weir's way",
		Long: `Look for obstacles on this host: kernel and its options, qdiscs that
another program set, other users of bits of the packet mark, speed of the links,
container engines, CRIU, clock, limits, and the agent. Each line says whether it is
ok, a warning or fails, with the finding and the remedy.

Nothing is changed, and no agent is needed. Without root, what could not be looked at
is called unknown. What a running agent finds wrong (weir status) is among the lines.
The exit code is 1 if something fails: then a link is not steered or sends nothing,
workloads are not seen, or the agent does not start.`,
		Example: `  weir doctor
  weir doctor --link eth1
  weir doctor -o json | jq -r '.[] | select(.level != "ok") | .remedy'`,
		Args:              frame.Names(),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, name := range o.Links {
				if err := config.CheckLink(name); err != nil {
					return frame.Usagef("--link %q: %v", name, err)
				}
			}
			o.Socket = a.Socket
			found := doctor.Examine(doctor.Look(c.Context(), o))
			if err := a.Print(found, func() string { return renderDoctor(found) }); err != nil {
				return err
			}
			if doctor.Count(found, doctor.Fails) > 0 {
				return frame.Exit(frame.ExitFailed, nil)
			}
			return nil
		},
	})
	c.Flags().StringVar(&o.File, "config", "", "configuration `FILE` (default "+config.DefaultPath+" if it exists)")
	c.Flags().StringArrayVar(&o.Links, "link", nil, "`DEV` to look at instead of those in the file; may be given several times")
	return c
}

// renderDoctor returns a line for each finding, with its remedy below it, and a summary.
func renderDoctor(found []doctor.Finding) string {
	t := table.New("LEVEL", "CHECK", "SEEN")
	for _, f := range found {
		t.Add(string(f.Level), f.Check, f.Seen)
		if f.Remedy != "" {
			t.Add("", "", "> "+f.Remedy)
		}
	}
	return t.String() + "\n" + doctorSummary(found) + "\n"
}

func doctorSummary(found []doctor.Finding) string {
	var parts []string
	for _, level := range []doctor.Level{doctor.Fails, doctor.Warning, doctor.Unknown, doctor.OK} {
		if n := doctor.Count(found, level); n > 0 {
			parts = append(parts, fmt.Sprintf("%s: %d", level, n))
		}
	}
	return strings.Join(parts, ", ")
}
