// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/cli/table"
)

func (a *app) getCommand() *cobra.Command {
	return a.printing(&cobra.Command{
		Use:     "get [NAME]",
		Aliases: []string{"ls", "list"},
		Short:   "Show workloads and their policies",
		Long: `Without NAME, list every workload with its policy and its rate. With NAME, show
one in full: where each part of its policy comes from, its queue, its drops.
NAME is a container's name, a prefix of its id, or the name given to weir attach.`,
		Example: `  weir get
  weir get web
  weir get -o json | jq -r '.[] | select(.state != "active") | .name'`,
		Args:              names("[NAME]"),
		ValidArgsFunction: a.completeWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				w, err := a.client().Workload(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.print(w, func() string { return renderWorkload(w) })
			}
			ws, err := a.client().Workloads(c.Context())
			if err != nil {
				return err
			}
			return a.print(ws, func() string { return renderWorkloads(ws) })
		},
	})
}

// renderWorkloads is one line per workload and link.
func renderWorkloads(ws []api.Workload) string {
	if len(ws) == 0 {
		return "no workloads; start a container, or use weir attach\n"
	}
	t := table.New("NAME", "KIND", "STATE", "LINK", ">WEIGHT", ">MIN", ">MAX", ">RATE", ">SHARE", ">IDEAL", "NOTE")
	for _, w := range ws {
		weight := fmt.Sprint(w.Policy.Weight)
		if len(w.Links) == 0 {
			t.Add(w.Name, w.Kind, w.State, "-", weight, cmp.Or(w.Policy.Min, "-"), cmp.Or(w.Policy.Max, "-"), "-", "-", "-", w.Note)
		}
		for _, l := range w.Links {
			t.Add(w.Name, w.Kind, w.State, l.Device, weight, limit(l.MinBps), limit(l.MaxBps),
				measured(l.RateBps), percent(l.Share), measured(l.IdealBps), w.Note)
		}
	}
	return t.String()
}

// renderWorkload is everything about one workload.
func renderWorkload(w api.Workload) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, class %d, %s\n", w.Name, w.Kind, w.Class, withNote(w.State, w.Note))
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-13s  %s\n", label, fmt.Sprintf(format, args...))
	}
	if w.ID != "" {
		line("id", "%s", w.ID)
	}
	if len(w.Devices) > 0 {
		line("devices", "%s", strings.Join(w.Devices, ", "))
	}
	b.WriteString("policy\n")
	field := func(name, value string) {
		line(name, "%-12s  %s", value, originText(w.Origin[name]))
	}
	field("weight", fmt.Sprint(w.Policy.Weight))
	field("min", written(w.Policy.Min))
	field("max", written(w.Policy.Max))
	if n := w.Policy.LimitPackets; n > 0 {
		field("limit_packets", fmt.Sprintf("%d packets", n))
	}
	if n := w.Policy.LimitBytes; n > 0 {
		field("limit_bytes", size(n))
	}
	for _, l := range w.Links {
		fmt.Fprintf(&b, "%s on %s\n", direction("egress"), l.Device)
		line("rate", "%s, %s of the link", measured(l.RateBps), percent(l.Share))
		line("ideal", "%s", measured(l.IdealBps))
		line("offered", "%s", measured(l.OfferedBps))
		line("promised", "min %s, max %s", limitOrNone(l.MinBps), limitOrNone(l.MaxBps))
		line("backlog", "%d packets, %s", l.BacklogPackets, size(l.BacklogBytes))
		line("sent", "%d packets, %s", l.SentPackets, size(l.SentBytes))
		line("drops", "%s", drops(l))
	}
	return b.String()
}

func limitOrNone(bps uint64) string {
	if bps == 0 {
		return "none"
	}
	return limit(bps)
}

// originText says who decided a field of a policy.
func originText(origin string) string {
	switch origin {
	case "", "default":
		return "by default"
	case "config":
		return "from the configuration"
	case "label":
		return "from a label"
	case "set":
		return "from weir set"
	}
	return "from " + origin
}
