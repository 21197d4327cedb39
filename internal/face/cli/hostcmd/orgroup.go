// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"weir/internal/api"
	"weir/internal/core/closest"
	"weir/internal/core/policy"
	"weir/internal/core/policy/times"
	"weir/internal/core/refusal"
	"weir/internal/face/cli/frame"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// groupWord before a name says that a group is meant.
const groupWord = "group"

// nameOrGroup accepts what names does for one argument, and the word group with a
// group's name.
func nameOrGroup(arg string) cobra.PositionalArgs {
	plain := frame.Names(arg)
	return func(c *cobra.Command, given []string) error {
		if len(given) == 2 && given[0] == groupWord {
			return nil
		}
		return plain(c, given)
	}
}

// orGroup asks about the workload that args names, or about the group: with the word
// group, or where no workload has the name.
func orGroup[T any](ctx context.Context, args []string, workload, group func(context.Context, string) (T, error)) (T, error) {
	if len(args) == 2 {
		return group(ctx, args[1])
	}
	answer, err := workload(ctx, args[0])
	if !refusal.Is(err, refusal.Unknown) {
		return answer, err
	}
	if other, failed := group(ctx, args[0]); failed == nil {
		return other, nil
	}
	return answer, err
}

// nobody returns the line that weir prints below an empty answer about a name which no workload,
// group or link has now: it may be gone, or the user may have written it wrongly. It is "" where
// one has it. Sources of workloads count where the command asks for them.
func (a Commands) nobody(ctx context.Context, name string, withSources bool) (string, error) {
	workloads, err := a.AgentClient().Workloads(ctx)
	if err != nil {
		return "", err
	}
	status, err := a.AgentClient().Status(ctx)
	if err != nil {
		return "", err
	}
	kinds, names := "workload, group or link", []string{}
	for _, w := range workloads {
		names = append(names, w.Name)
	}
	for _, g := range status.Groups {
		names = append(names, g.Name)
	}
	for _, l := range status.Links {
		names = append(names, l.Device)
	}
	if withSources {
		kinds = "workload, group, link or source"
		names = append(names, status.Config)
		for _, s := range status.Sources {
			names = append(names, s.Name)
		}
	}
	if slices.Contains(names, name) {
		return "", nil
	}
	remedy := "weir status and weir get list those that there are"
	if near := closest.Words(name, names, 1); len(near) > 0 {
		remedy = "did you mean " + near[0] + "?"
	}
	return table.Clean(fmt.Sprintf("no %s is called %q now; %s", kinds, name, remedy)) + "\n", nil
}

// answer is the answer to a request, and its text for people.
type answer struct {
	value  any
	render func() string
}

// asAnswer has ask give an answer.
func asAnswer[T any](ask func(context.Context, string) (T, error), render func(T) string) func(context.Context, string) (answer, error) {
	return func(ctx context.Context, name string) (answer, error) {
		value, err := ask(ctx, name)
		return answer{value, func() string { return render(value) }}, err
	}
}

// asGroupChange returns a change of a policy as one of a group, which has fewer fields.
func asGroupChange(c api.PolicyChange) (api.GroupChange, error) {
	fields := policy.FieldNames(policy.OnGroup)
	for _, name := range c.Given() {
		if !slices.Contains(fields, name) {
			return api.GroupChange{}, frame.Usagef("a group has %s; give the rest to its members", flagNames(policy.OnGroup, "and"))
		}
	}
	return api.GroupChange{PolicyChange: c}, nil
}

// groupHint returns the error of a change that finds no workload of a name which a group
// has. A command changes a group only where it names it as a group, so that a change of a
// missing workload does not become one of a group.
func (a Commands) groupHint(ctx context.Context, name string, err error) error {
	if !refusal.Is(err, refusal.Unknown) {
		return err
	}
	if _, failed := a.AgentClient().Group(ctx, name); failed != nil {
		return err
	}
	hint := *refusal.Of(err)
	hint.Remedy = fmt.Sprintf("a group is: weir set group %s ...", name)
	return &hint
}

// renderGroup returns the page of one group, with all its fields.
func renderGroup(g api.Group) string {
	text := fmt.Sprintf("%s: group, class %d, %s\n", g.Name, g.Class, human.WithNote(g.State, g.Note))
	line := func(label, value string) { text += fmt.Sprintf("  %-13s  %s\n", label, value) }
	line("members", membersLine(g.Members))
	text += "policy\n"
	for _, f := range shownFields(g.Policy.Policy, policy.OnGroup) {
		line(f.name, fmt.Sprintf("%-12s  %s", f.value, originText(g.Origin[f.name])))
	}
	if g.Until != nil {
		line("until", times.Text(*g.Until)+", then other fields hold, see when")
	}
	if g.Quota != nil {
		line("quota", g.Quota.Text)
	}
	for _, l := range g.Links {
		text += fmt.Sprintf("%s on %s, all members together\n", human.Direction(l.Direction), l.Device)
		line("rate", fmt.Sprintf("%s, %s of the link", human.Measured(l.RateBps), human.Percent(l.Share)))
		line("ideal", human.Measured(l.IdealBps))
		if l.Score != nil {
			line("kept", l.Score.Text)
		}
		line("offered", human.Measured(l.OfferedBps))
		line("reserved", human.LimitOrNone(l.MinBps))
		line("max", human.LimitOrNone(l.MaxBps))
		line("backlog", fmt.Sprintf("%d packets, %s", l.BacklogPackets, human.Size(l.BacklogBytes)))
		line("sent", fmt.Sprintf("%d packets, %s", l.SentPackets, human.Size(l.SentBytes)))
		line("delay", l.Delay.Text())
		line("drops", human.Drops(l.Drops, l.DropsPerSecond))
		if l.MarkedPackets > 0 {
			line("marked", fmt.Sprintf("%d packets in place of drops (ECN)", l.MarkedPackets))
		}
		if l.ThinnedPackets > 0 {
			line("thinned", fmt.Sprintf("%d ACKs gave way to newer ones", l.ThinnedPackets))
		}
	}
	return text
}
