// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/policy/times"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// Get makes weir get.
func (a Commands) Get() *cobra.Command {
	var (
		watch bool
		set   bool
		count int
	)
	c := a.Printing(&cobra.Command{
		Use:     "get [NAME | group NAME]",
		Aliases: []string{"ls", "list"},
		Short:   "Show workloads and their policies",
		Long: `Without NAME, list every workload with its policy and its rate. With NAME, show
one in full: where each part of its policy comes from, its queues, its drops. The
members of a group stand below it, indented. A group in full is shown by the word group
and its name, or by its name alone where no workload has that name.

With --set, list what was set at run time and what would count without it: it goes before
labels and weir.yaml, also before what is written there later. The NOTE of a workload names
such fields.

With --watch, go on: on a terminal the page is renewed every second; elsewhere there is
a line for each workload, and one more whenever its policy or state changes, it comes
or goes; with -o json a document a second, each in one line.
NAME is a container's name, a prefix of its id, or the name given to weir attach.`,
		Example: `  weir get
  weir get web
  weir get group tenant-b
  weir get --watch
  weir get --set
  weir get -o json | jq -r '.[] | select(.state != "active") | .name'`,
		Args:              nameOrGroup("[NAME]"),
		ValidArgsFunction: a.CompleteWorkload,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case count < 0:
				return frame.Usagef("--count %d: below zero; give how many samples to print, 0 for no end", count)
			case set && (watch || len(args) > 0):
				return frame.Usagef("--set lists what was set of all workloads and groups; leave the rest out, or use weir get NAME")
			case count > 0 && !watch:
				return frame.Usagef("--count is of --watch; give both")
			}
			if len(args) == 2 && watch {
				return frame.Usagef("--watch is of workloads, in which the members of a group are; leave it out, or use weir top")
			}
			if len(args) == 1 && watch {
				w, err := a.AgentClient().Workload(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.watch(c.Context(), w.Key, count)
			}
			if len(args) > 0 {
				found, err := orGroup(c.Context(), args, asAnswer(a.AgentClient().Workload, renderWorkload), asAnswer(a.AgentClient().Group, renderGroup))
				if err != nil {
					return err
				}
				return a.Print(found.value, found.render)
			}
			if watch {
				return a.watch(c.Context(), "", count)
			}
			if set {
				list, err := a.settings(c.Context())
				if err != nil {
					return err
				}
				return a.Print(list, func() string { return renderSettings(list) })
			}
			ws, err := a.AgentClient().Workloads(c.Context())
			if err != nil {
				return err
			}
			var groups []api.Group
			if a.Format == frame.Table {
				if groups, err = a.AgentClient().Groups(c.Context()); err != nil {
					return err
				}
			}
			return a.Print(ws, func() string { return renderWorkloads(ws, groups) })
		},
	})
	c.Flags().BoolVar(&set, "set", false, "list what was set at run time, beside what would count without it")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "go on printing, until interrupted")
	c.Flags().IntVarP(&count, "count", "n", 0, "with --watch: end after `N` samples, 0 for no end")
	return c
}

// renderWorkloads returns one line per workload and link; groups come last, each with its
// members below it.
func renderWorkloads(ws []api.Workload, groups []api.Group) string {
	if len(ws) == 0 && len(groups) == 0 {
		return "no workloads; start a container, or use weir attach\n"
	}
	t := table.New("NAME", "KIND", "STATE", "LINK", ">WEIGHT", ">MIN", ">MAX", ">RATE", ">SHARE", ">IDEAL", "NOTE")
	known := map[string]bool{}
	for _, g := range groups {
		known[g.Name] = true
	}
	for _, w := range ws {
		if !known[w.Policy.Group] {
			addWorkload(t, "", w)
		}
	}
	for _, g := range groups {
		addRows(t, [3]string{g.Name, "group", g.State}, api.PolicyOf(g.Policy.Policy), g.Links, withSet(g.Note, g.Origin))
		for _, w := range ws {
			if w.Policy.Group == g.Name {
				addWorkload(t, "  ", w)
			}
		}
	}
	return t.String()
}

func addWorkload(t *table.Table, indent string, w api.Workload) {
	note := w.Note
	if len(w.Warnings) > 0 {
		note = strings.TrimPrefix(note+"; rules overlap", "; ")
	}
	addRows(t, [3]string{indent + w.Name, w.Kind, w.State}, w.Policy, w.Links, withSet(note, w.Origin))
}

// withSet returns a note with the fields that were set at run time.
func withSet(note string, origin map[string]string) string {
	if fields := setFields(origin); len(fields) > 0 {
		note = strings.TrimPrefix(note+"; set: "+strings.Join(fields, ", "), "; ")
	}
	return note
}

// longestName bounds the characters of a name in the table; -o json has all of it.
const longestName = 40

// orDash returns a rate of a policy for the table: "-" for none.
func orDash(rate string) string {
	if rate == "" {
		return "-"
	}
	return human.Written(rate)
}

// addRows adds a workload or a group, head being its name, kind and state.
func addRows(t *table.Table, head [3]string, p api.Policy, links []api.WorkloadLink, note string) {
	if width := lipgloss.Width(head[0]); width > longestName {
		head[0] = table.Pad(head[0], longestName, false)
	}
	if len(links) == 0 {
		t.Add(head[0], head[1], head[2], "-", fmt.Sprint(p.Weight), orDash(p.Min.Compact()), orDash(p.Max.Compact()), "-", "-", "-", note)
	}
	for _, l := range links {
		t.Add(head[0], head[1], head[2], api.LinkName(l.Device, l.Direction), fmt.Sprint(p.In(l.Direction).Weight), human.Limit(l.MinBps), human.Limit(l.MaxBps),
			human.Measured(l.RateBps), human.Percent(l.Share), human.Measured(l.IdealBps), note)
	}
}

// renderWorkload returns the page of one workload, with all its fields.
func renderWorkload(w api.Workload) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, class %d, %s\n", w.Name, w.Kind, w.Class, human.WithNote(w.State, w.Note))
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-13s  %s\n", label, fmt.Sprintf(format, args...))
	}
	if w.ID != "" {
		line("id", "%s", w.ID)
	}
	if len(w.Devices) > 0 {
		line("devices", "%s", strings.Join(w.Devices, ", "))
	}
	if len(w.Cgroups) > 0 {
		line("cgroups", "%s", strings.Join(w.Cgroups, ", "))
	}
	b.WriteString("policy\n" + policyLines(w.Policy, w.Origin, ""))
	if in := w.Policy.Ingress; in != nil {
		b.WriteString("policy of " + human.Direction("ingress") + "\n" + policyLines(api.PolicyOf(*in), w.Origin, "ingress."))
	}
	if w.Until != nil {
		line("until", "%s, then other fields hold, see when", times.Text(*w.Until))
	}
	if w.Quota != nil {
		line("quota", "%s", w.Quota.Text)
	}
	b.WriteString(human.Warnings("  ", w.Warnings))
	for _, l := range w.Links {
		fmt.Fprintf(&b, "%s on %s\n", human.Direction(l.Direction), l.Device)
		line("rate", "%s, %s of the link", human.Measured(l.RateBps), human.Percent(l.Share))
		line("ideal", "%s", human.Measured(l.IdealBps))
		if l.Score != nil {
			line("kept", "%s", l.Score.Text)
		}
		line("offered", "%s", human.Measured(l.OfferedBps))
		if l.Discipline != "" {
			line("discipline", "%s, as the switch says of this port", l.Discipline)
		}
		line("promised", "min %s, max %s", human.LimitOrNone(l.MinBps), human.LimitOrNone(l.MaxBps))
		line("backlog", "%d packets, %s", l.BacklogPackets, human.Size(l.BacklogBytes))
		line("sent", "%d packets, %s", l.SentPackets, human.Size(l.SentBytes))
		line("delay", "%s", l.Delay.Text())
		line("drops", "%s", human.Drops(l.Drops, l.DropsPerSecond))
		if l.MarkedPackets > 0 {
			line("marked", "%d packets in place of drops (ECN)", l.MarkedPackets)
		}
		if l.ThinnedPackets > 0 {
			line("thinned", "%d ACKs gave way to newer ones", l.ThinnedPackets)
		}
		if len(l.Queues) > 0 {
			b.WriteString(queueTable(l.Queues).String())
		}
	}
	return b.String()
}

// policyLines returns a policy with where each field comes from; the fields' names in
// origin have the prefix.
func policyLines(p api.Policy, origin map[string]string, prefix string) string {
	var b strings.Builder
	line := func(label, text string) { fmt.Fprintf(&b, "  %-13s  %s\n", label, text) }
	for _, f := range shownFields(p.Policy, policy.OnWorkload) {
		line(f.name, fmt.Sprintf("%-12s  %s", f.value, originText(origin[prefix+f.name])))
	}
	for i, q := range p.Queues {
		line(fmt.Sprintf("queue %d", i+1), queueText(q))
	}
	return b.String()
}

// shownField is a field of a policy for people.
type shownField struct {
	name, value string
	atDefault   bool
}

// shownFields returns the fields of a policy that are worth a line each: those that always
// are, and those that are not at their default. Queues have lines of their own.
func shownFields(p policy.Policy, on policy.Place) (list []shownField) {
	for _, f := range policy.Fields(on) {
		if f.Form == policy.List || !f.Always && f.AtDefault(p) {
			continue
		}
		value := f.Write(p)
		switch f.Name {
		case "limit_packets":
			value += " packets"
		case "limit_bytes":
			value = human.Size(p.LimitBytes)
		case "min", "max", "reserve":
			value = human.Written(strings.TrimPrefix(value, f.None))
		}
		list = append(list, shownField{f.Name, value, f.AtDefault(p)})
	}
	return list
}

// queueText returns a queue as a person would write it in weir.yaml.
func queueText(q policy.Queue) string {
	var words []string
	for _, f := range policy.QueueFields() {
		if text := f.Text(q); text != "" {
			words = append(words, f.Name+": "+text)
		}
	}
	return q.Name + ": {" + strings.Join(words, ", ") + "}"
}

func queueTable(queues []api.QueueTraffic) *table.Table {
	t := table.New("  QUEUE", ">RATE", ">OFFERED", ">BACKLOG", ">P99", ">SENT", "DROPS")
	for _, q := range queues {
		t.Add("  "+q.Name, human.Measured(q.RateBps), human.Measured(q.OfferedBps), fmt.Sprintf("%d packets", q.BacklogPackets), q.Delay.P99Text(),
			fmt.Sprintf("%d packets", q.SentPackets), human.Drops(q.Drops, q.DropsPerSecond))
	}
	return t
}

// originText says who decided a field of a policy.
func originText(origin string) string {
	switch origin {
	case "", "default":
		return "by default"
	case "config":
		return "from the configuration"
	case "found":
		return "from what it is a part of"
	case "label":
		return "from a label"
	case "asked":
		return "asked for it"
	case "when":
		return "at this time, see when"
	case "set":
		return "from weir set"
	}
	return "from " + origin
}
