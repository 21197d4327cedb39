// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/internal/core/policy/quota"
	"weir/internal/core/policy/times"
)

// objects looks for workloads and groups about which text says something.
func objects(text func(Object) string, remedy string) func(look) []Condition {
	return func(l look) (found []Condition) {
		for _, o := range l.Objects {
			if t := text(o); t != "" {
				found = append(found, Condition{Subject{Type: o.Type, Name: o.Name}, t, fmt.Sprintf(remedy, o.Name)})
			}
		}
		return found
	}
}

// lookPast looks for workloads of which some traffic goes past the links. What is found first
// about one says what to do.
func lookPast(l look) (found []Condition) {
	for _, o := range l.Objects {
		if len(o.Past) == 0 {
			continue
		}
		text := o.Past[0].Text
		if more := len(o.Past) - 1; more > 0 {
			text = fmt.Sprintf("%s (and %d more, weir get %s)", text, more, o.Name)
		}
		found = append(found, Condition{Subject{Type: o.Type, Name: o.Name}, text, o.Past[0].Remedy})
	}
	return found
}

// links looks for links that lack something.
func links(lost func(LinkSight) bool, remedy string) func(look) []Condition {
	return func(l look) (found []Condition) {
		for _, at := range l.Links {
			if lost(at) {
				found = append(found, Condition{at.subject(), "not steered: " + at.Error, remedy})
			}
		}
		return bothWays(found)
	}
}

// bothWays leaves out what is said of a device's egress already: one device that is gone is one
// condition.
func bothWays(found []Condition) []Condition {
	return slices.DeleteFunc(slices.Clone(found), func(f Condition) bool {
		return f.Subject.Direction == ingress && slices.ContainsFunc(found, func(of Condition) bool {
			return of.Subject.Name == f.Subject.Name && of.Subject.Direction != ingress && of.Text == f.Text
		})
	})
}

// reported looks for what other parts of the program than the agent have found.
func reported(kind string) func(look) []Condition {
	return func(l look) []Condition { return l.Reported[kind] }
}

func lookNoLink(l look) []Condition {
	if !l.NoLink {
		return nil
	}
	return []Condition{{Subject{Type: Configuration, Name: cmp.Or(l.ConfigFile, "weir.yaml")}, "no link is steered", "name one under links:, e.g. links: [{device: eth0, egress: 100mbit}]"}}
}

func lookSinks(l look) (found []Condition) {
	for _, s := range l.Sinks {
		if s.Error != "" {
			found = append(found, Condition{Subject{Type: Sink, Name: s.Name}, "does not take events: " + s.Error, "see that " + s.To + " works; weir status says how many events wait"})
		}
	}
	return found
}

func lookDown(l look) (found []Condition) {
	for _, at := range l.Links {
		if at.Down != "" {
			text, remedy, _ := strings.Cut(at.Down, "; ")
			found = append(found, Condition{at.subject(), text, remedy})
		}
	}
	return bothWays(found)
}

func (l LinkSight) subject() Subject {
	return Subject{Type: Link, Name: l.Device, Direction: l.Direction}
}

func lookNotHeld(l look) []Condition {
	found := objects(func(o Object) string { return o.NotHeld }, "take it out of the policy, use a kernel with BPF qdiscs, or accept it with --accept-gaps; weir get %s names the field")(l)
	var at []Condition
	for _, link := range l.Links {
		if link.NotHeld != "" {
			at = append(at, Condition{link.subject(), link.NotHeld, "take it out of weir.yaml, use a kernel with BPF qdiscs, or accept it with accept_gaps: true in weir.yaml"})
		}
	}
	return append(found, bothWays(at)...)
}

func lookQuotaNear(l look) []Condition {
	return quotas(l, func(q Quota) (bool, string) {
		return q.Part >= quota.WarnAt && !q.Reached, fmt.Sprintf("%.0f %% of its quota are used; the period ends %s", math.Floor(100*q.Part), times.Text(q.Until.UTC()))
	}, "raise its quota (weir set %s --quota), or let it send less; weir usage %[1]s says when it was used")
}

func lookQuotaReached(l look) []Condition {
	return quotas(l, func(q Quota) (bool, string) {
		held := "nothing is limited"
		if q.InForce != "" {
			held = q.InForce + " is in force"
		}
		return q.Reached, fmt.Sprintf("its quota is used up, %s until %s", held, times.Text(q.Until.UTC()))
	}, "raise its quota (weir set %s --quota), or wait for the next period; weir usage %[1]s says when it was used")
}

func quotas(l look, holds func(Quota) (bool, string), remedy string) (found []Condition) {
	for _, o := range l.Objects {
		if o.Quota.Until.IsZero() {
			continue
		}
		if yes, text := holds(o.Quota); yes {
			how := fmt.Sprintf(remedy, o.Name)
			if o.Type == Group {
				how = fmt.Sprintf("raise its quota (weir group set %s --quota), or wait for the next period; weir usage %[1]s says when it was used", o.Name)
			}
			found = append(found, Condition{Subject{Type: o.Type, Name: o.Name}, text, how})
		}
	}
	return found
}

func lookRepaired(l look) (found []Condition) {
	for _, at := range l.Links {
		if at.Repaired != "" {
			found = append(found, Condition{at.subject(), "another program changed what Weir had set, and the agent has set it again: " + at.Repaired,
				"find the program (a network manager, a script with tc) and keep it off this device; weir doctor names what managers of networks have set there"})
		}
	}
	return found
}

func lookSources(l look) (found []Condition) {
	for _, s := range l.Sources {
		if s.Lost {
			text := "does not answer"
			if s.Note != "" {
				text += ": " + s.Note
			}
			found = append(found, Condition{Subject{Type: Source, Name: s.Name}, text, "start it again; if it is not used here, switch it off in weir.yaml"})
		}
	}
	return found
}

func lookConfig(l look) []Condition {
	if l.ConfigError == "" {
		return nil
	}
	return []Condition{{Subject{Type: Configuration, Name: l.ConfigFile}, l.ConfigError, "correct the file; weir config check says whether it is right"}}
}

func lookRestart(l look) []Condition {
	if len(l.RestartDue) == 0 {
		return nil
	}
	return []Condition{{Subject{Type: Configuration, Name: l.ConfigFile}, strings.Join(l.RestartDue, ", ") + ": in force from the next start of the agent on",
		"systemctl restart weir; packets flow on meanwhile"}}
}

func lookUnwritable(l look) (found []Condition) {
	for _, folder := range l.Unwritable {
		found = append(found, Condition{Subject{Type: Folder, Name: folder.Path}, folder.Note, "make room there, or mount it writable; weir doctor looks at both folders"})
	}
	return found
}
