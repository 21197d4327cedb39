// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/event"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// Status makes weir status.
func (a Commands) Status() *cobra.Command {
	var gaps, check bool
	c := a.Printing(&cobra.Command{
		Use:   "status",
		Short: "Show what is wrong, the agent, its links and the promises that they cannot keep",
		Long: `Show what is wrong and what to do about it, the agent, its sources of workloads, and
each link: capacity, rate, how much of it mins reserve and how much is free, which
backend steers it and how many promises that backend cannot keep on this kernel;
--gaps lists them. A link whose capacity is more than one root qdisc carries on this
host has a warning.

With --check the exit code is 1 if one of the problems is an error: a link is not
steered or sends nothing, workloads are not seen, weir.yaml is wrong, or a disk is full.
Other problems, such as a min that does not fit, leave it 0. Without --check it is 0 if
the agent answers, as a probe asks that may end the agent.`,
		Example: `  weir status
  weir status --gaps
  weir status --check >/dev/null || weir doctor
  weir status -o json | jq '.links[].free_bps'`,
		Args: frame.Names(),
		RunE: func(c *cobra.Command, _ []string) error {
			st, err := a.AgentClient().Status(c.Context())
			if err != nil {
				return err
			}
			if err := a.Print(st, func() string { return renderStatus(st, gaps, time.Now()) }); err != nil {
				return err
			}
			if check && event.Failing(st.Problems) {
				return frame.Exit(frame.ExitFailed, nil)
			}
			return nil
		},
	})
	c.Flags().BoolVar(&check, "check", false, "exit with 1 if one of the problems is an error")
	c.Flags().BoolVar(&gaps, "gaps", false, "list what the links' backends cannot hold on this kernel")
	return c
}

// renderStatus returns the page that weir status prints.
func renderStatus(st api.Status, gaps bool, now time.Time) string {
	var b strings.Builder
	b.WriteString(healthText(st.Problems))
	config := "no configuration file"
	if st.Config != "" {
		config = "config " + st.Config
	}
	fmt.Fprintf(&b, "agent    %s, up %s, %s\n", st.Version, human.Age(now.Sub(st.Started)), config)
	if mistakes := strings.Split(st.ConfigError, "\n"); len(mistakes) > 1 { // else the problem has it
		fmt.Fprintf(&b, "         the file is wrong, the configuration before it is in force:\n         %s\n", strings.Join(mistakes, "\n         "))
	}
	if n := len(st.SetAtRunTime); n > 0 {
		fmt.Fprintf(&b, "set      at run time, before labels and weir.yaml: of %s; weir get --set lists it\n", firstNames(st.SetAtRunTime))
	}
	for i, s := range st.Sources {
		head := "         "
		if i == 0 {
			head = "sources  "
		}
		fmt.Fprintf(&b, "%s%-7s  %s\n", head, s.Name, human.WithNote(string(s.State), s.Note))
	}
	for i, s := range st.Events.Sinks {
		head := "         "
		if i == 0 {
			head = "tells    "
		}
		fmt.Fprintf(&b, "%s%-7s  %s: %d delivered, %d waiting, %d given up\n", head, s.Name, s.To, s.Delivered, s.Waiting, s.Undelivered)
	}
	if st.Cluster != nil {
		b.WriteString("cluster  " + membershipText(*st.Cluster, now) + "\n")
	}
	b.WriteString(human.Warnings("         ", st.Warnings))
	b.WriteByte('\n')
	if len(st.Links) == 0 {
		b.WriteString("no link is steered; give one in weir.yaml or with weir agent --link eth0 --egress 100mbit\n")
		return b.String()
	}
	b.WriteString(linkTable(st.Links).String())
	if len(st.Groups) > 0 {
		b.WriteString("\n" + groupTable(st.Groups).String())
	}
	for _, l := range st.Links {
		b.WriteString(linkNotes(l, gaps))
	}
	return b.String()
}

// healthText returns the first lines: "all is well", or the number of problems and a line
// for each.
func healthText(problems []event.Fault) string {
	switch len(problems) {
	case 0:
		return "health   all is well\n"
	case 1:
		return "health   1 problem: " + problems[0].String() + "\n"
	}
	text := fmt.Sprintf("health   %d problems\n", len(problems))
	for _, p := range problems {
		text += "         - " + p.String() + "\n"
	}
	return text
}

// membershipText returns the host's state in its cluster, in a line.
func membershipText(m api.Membership, now time.Time) string {
	since := " for " + human.Age(now.Sub(m.Since))
	text := fmt.Sprintf("node %s of the manager at %s, ", m.Node, m.Manager)
	switch m.State {
	case api.MemberConnected:
		text += "connected" + since
	case api.MemberJoining:
		text += human.WithNote("not joined yet, trying"+since, m.Note)
	case api.MemberRefused:
		text += human.WithNote("refused"+since, m.Note)
	default:
		text += human.WithNote("out of reach"+since, m.Note)
	}
	switch end := m.CertificateEnds; {
	case end.IsZero():
	case now.Before(end):
		text += "; certificate ends in " + human.Age(end.Sub(now))
	default:
		text += "; certificate ended " + human.Age(now.Sub(end)) + " ago"
	}
	if len(m.Moves) > 0 {
		text += "; moving " + strings.Join(m.Moves, ", ")
	}
	if list := refusedText(m.Refused); list != "" {
		text += "; refused " + list
	}
	return text
}

// refusedText returns the counts of refused requests of other nodes, e.g. "3 calls (2
// expired, 1 forged)".
func refusedText(counts map[string]uint64) string {
	var sum uint64
	var list []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		sum += counts[reason]
		list = append(list, fmt.Sprintf("%d %s", counts[reason], reason))
	}
	if sum == 0 {
		return ""
	}
	return fmt.Sprintf("%d calls (%s)", sum, strings.Join(list, ", "))
}

func linkTable(links []api.LinkStatus) *table.Table {
	t := table.New("LINK", "DIRECTION", "BACKEND", "SCHEDULER", ">CAPACITY", ">SENT", ">USED", ">RESERVED", ">FREE", ">WORKLOADS")
	for _, l := range links {
		used := 0.0
		if l.CapacityBps > 0 {
			used = l.RateBps / float64(l.CapacityBps)
		}
		t.Add(l.Device, human.Direction(l.Direction), l.Backend, l.Scheduler, human.Limit(l.CapacityBps),
			human.Measured(l.RateBps), human.Percent(used), human.Measured(float64(l.ReservedBps)), human.Measured(float64(l.FreeBps)), fmt.Sprint(l.Workloads))
	}
	return t
}

// linkNotes returns the notes about a link that its figures do not show.
func linkNotes(l api.LinkStatus, gaps bool) string {
	link := api.LinkName(l.Device, l.Direction)
	var b strings.Builder
	if l.Warning != "" {
		fmt.Fprintf(&b, "\n%s: %s\n", link, l.Warning)
	}
	for _, g := range l.NotHeld {
		if g.Accepted { // else it is a problem
			fmt.Fprintf(&b, "\n%s: %s\n", link, g.Sentence())
		}
	}
	if l.Reservable > 0 && l.Reservable < 1 {
		fmt.Fprintf(&b, "\n%s: mins may take %s of the capacity\n", link, human.Percent(l.Reservable))
	}
	if n := len(l.Gaps); n > 0 && !gaps {
		fmt.Fprintf(&b, "\n%s: what the %s backend cannot hold on this kernel: %s; weir status --gaps lists them\n", link, l.Backend, counted(n, "promise"))
	} else if n > 0 {
		fmt.Fprintf(&b, "\n%s: what the %s backend cannot hold on this kernel\n", link, l.Backend)
		for _, gap := range l.Gaps {
			fmt.Fprintf(&b, "  - %s\n", gap)
		}
	}
	return b.String()
}

// firstNames returns the first names of a list in a line.
func firstNames(names []string) string {
	const most = 5
	text := strings.Join(names[:min(most, len(names))], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// counted returns a number of things: "1 promise", "12 promises".
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
