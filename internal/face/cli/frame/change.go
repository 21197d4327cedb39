// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/face/cli/human"
	"weir/internal/face/cli/table"
)

// PrintChange prints the answer to a request that changes something.
func (a *App) PrintChange(r api.ChangeResult, err error) error {
	if err != nil {
		return err
	}
	return a.Print(r, func() string { return RenderChange(r) })
}

// RenderChange lists the changes that were made, or would be, with their reasons.
func RenderChange(r api.ChangeResult) string {
	var b strings.Builder
	indent := ""
	if r.DryRun {
		b.WriteString("dry run, nothing is changed; without --dry-run this would be:\n")
		indent = "  "
	}
	for _, ch := range r.Changes {
		fmt.Fprintf(&b, "%s%s\n", indent, human.WithNote(ch.What, ch.Why))
	}
	for _, line := range storedLines(r) {
		b.WriteString(indent + line + "\n")
	}
	if r.DryRun && len(r.Changes) > 0 && (r.Workload != nil || r.Group != nil) {
		b.WriteString(effectsText(r.Effects))
	}
	if r.Workload != nil {
		b.WriteString(human.Warnings(indent, r.Workload.Warnings))
	}
	return b.String()
}

// RenderReset is RenderChange with the name of the workload or group before what a reset changes.
func RenderReset(r api.ChangeResult) string {
	name := ""
	switch {
	case r.Workload != nil:
		name = r.Workload.Name
	case r.Group != nil:
		name = "group " + r.Group.Name
	}
	lines := storedLines(r)
	for _, ch := range r.Changes {
		lines = append(lines, human.WithNote(ch.What, ch.Why))
	}
	dry := ""
	if r.DryRun {
		dry = " (dry run, nothing is changed)"
	}
	return name + dry + "\n  " + strings.Join(lines, "\n  ") + "\n"
}

// mostEffects is how many rates a dry run lists.
const mostEffects = 30

// effectsText says who would get less and who more, those that lose most first: with the traffic
// of now, and while all want all that they can get.
func effectsText(effects []api.Effect) string {
	if len(effects) == 0 {
		return "\nno rate would differ\n"
	}
	t := table.New("NAME", "LINK", "WITH THE TRAFFIC OF NOW", "WHEN ALL WANT ALL")
	for _, e := range effects[:min(mostEffects, len(effects))] {
		name := e.Name
		if e.Group {
			name = "group " + name
		}
		t.Add(name, api.LinkName(e.Device, e.Direction), fromTo(e.NowBeforeBps, e.NowAfterBps), fromTo(e.BusyBeforeBps, e.BusyAfterBps))
	}
	text := "\nwho would get less, who more:\n\n" + t.String()
	if more := len(effects) - mostEffects; more > 0 {
		text += fmt.Sprintf("and %d more; -o json has all\n", more)
	}
	return text
}

// fromTo returns two rates as a change, or the one that both are.
func fromTo(before, after float64) string {
	from, to := human.Measured(before), human.Measured(after)
	if from == to {
		return to
	}
	return from + " -> " + to
}

// storedLines say what of the settings made at run time was stored or dropped beside
// the changes, and that nothing was, where that is so.
func storedLines(r api.ChangeResult) []string {
	name, reset := "", ""
	switch {
	case r.Workload != nil:
		name, reset = r.Workload.Name, "weir set "+r.Workload.Name+" --reset"
	case r.Group != nil:
		name, reset = "group "+r.Group.Name, "weir group set "+r.Group.Name+" --reset"
	}
	var lines []string
	if len(r.Stored) > 0 {
		lines = append(lines, fmt.Sprintf("stored: %s of %s is set at run time from now on, with the value that it had; it counts before labels and weir.yaml until %s",
			fieldValues(r.Stored), name, reset))
	}
	if len(r.NotHeld) > 0 {
		lines = append(lines, fmt.Sprintf("stored: %s of %s, which is not held on this kernel", fieldValues(r.NotHeld), name))
	}
	if len(r.Dropped) > 0 {
		lines = append(lines, fmt.Sprintf("dropped: %s of %s is no longer set at run time; labels and weir.yaml count again", fieldValues(r.Dropped), name))
	}
	if len(r.Changes) == 0 {
		switch {
		case len(lines) > 0:
			lines = append(lines, "the kernel has nothing to change")
		case name == "":
			lines = append(lines, "nothing to change")
		default:
			lines = append(lines, fmt.Sprintf("nothing to change: %s is so already, and nothing was stored or dropped", name))
		}
	}
	return lines
}

// fieldValues lists fields with their values, such as "min 20mbit, weight 3".
func fieldValues(values map[string]string) string {
	var list []string
	for _, field := range slices.Sorted(maps.Keys(values)) {
		value := values[field]
		if strings.HasSuffix(field, "queues") { // as JSON
			value = ""
		}
		list = append(list, strings.TrimSpace(field+" "+value))
	}
	return strings.Join(list, ", ")
}
