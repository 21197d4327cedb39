// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"weir/internal/policy/quota"
)

// Kind is one kind of condition: a row of the table that the agent, the configuration, the
// OpenAPI document and docs/events.md are made from.
type Kind struct {
	Name     string
	Severity string
	Means    string // when it begins and ends, for docs/events.md
	Over     string // the text of an end, after the subject's name: "web has all of its policy"
	Wait     time.Duration
	Quiet    time.Duration
	look     func(look) []Finding
}

// look is what a kind looks at. near reports whether the bound for an end counts instead of the
// one for a begin: the condition has been told.
type look struct {
	Sight
	bounds Bounds
	losses losses
	near   func(Subject) bool
}

// Kinds are all conditions. A new one is a row here; `go test ./internal/event -update` writes
// it into docs/events.md.
var Kinds = []Kind{
	{"refused", Warning, "A part of the policy of a workload or group is not in force, such as a min for which a link has no room. It ends when all of the policy is.",
		"has all of its policy", 0, 10 * time.Second,
		objects(func(o Object) string { return o.Refused }, "ask for less, lower the min of another one, or raise reservable at the link; weir explain %s has the numbers")},
	{"not-held", Warning, "The backend of a link does not hold a part of a policy, or a setting of the link, on this kernel, and that was not accepted. It ends when it does, or when that is no longer asked for.",
		"is held as it was asked for", 0, 10 * time.Second, lookNotHeld},
	{"quota-near", Warning, "80 % of a quota are used. It ends when the next period begins, when the quota is raised, and when it is taken away.",
		"has used less than 80 % of its quota", 0, 0, lookQuotaNear},
	{"quota-reached", Warning, "A quota is used up, and what its `then` says is in force. It ends when the next period begins, when the quota is raised, and when it is taken away.",
		"has some of its quota left again", 0, 0, lookQuotaReached},
	{"drops", Warning, "For 10 s, more than the configured part of a workload's packets on a link was dropped for one reason (`tell.drops`; 10 % unless it says otherwise), and at least 10 a second. It ends when it was less than half of that for 30 s.",
		"drops few packets again", 10 * time.Second, 30 * time.Second, lookDrops},
	{"link-gone", Error, "The device of a link is not there. It ends when it is, and the link is steered.",
		"is there and steered again", 3 * time.Second, 5 * time.Second, links(func(l LinkSight) bool { return l.Gone },
			"bring the device up (ip link), or take the link out of weir.yaml; the agent takes it over as soon as it is there")},
	{"link-down", Error, "The device of a link is there and sends nothing: it is down, or has no carrier. It ends when it can send.",
		"can send again", 3 * time.Second, 5 * time.Second, lookDown},
	{"backend-lost", Error, "A link is not steered, or not as wanted, for another reason: its backend has ended, or the kernel refuses a change. It ends when the link is as wanted.",
		"is steered as wanted again", 3 * time.Second, 5 * time.Second, links(func(l LinkSight) bool { return l.Error != "" && !l.Gone },
			"the agent tries again every few seconds; weir doctor says what is in its way, journalctl -u weir what was tried")},
	{"repaired", Warning, "Another program or a person has removed or changed what Weir had set at a link (a qdisc, a class, a filter, a map), and the agent has set it again. It ends when nothing was changed for a minute.",
		"has been left alone for a minute", 0, time.Minute, lookRepaired},
	{"source-lost", Error, "A source of workloads, such as Docker, does not answer: those that are known stay, new ones are not seen. It ends when it answers.",
		"answers again", 10 * time.Second, 5 * time.Second, lookSources},
	{"config-wrong", Warning, "The configuration file was changed and has a mistake; the one before it stays in force. It ends when the file is right.",
		"is right again, and in force", 0, 0, lookConfig},
	{"unwritable", Warning, "The agent can write nothing in its state folder, or in that of the audit log: the disk is full, or read-only. It ends when there is room.",
		"can be written again", 0, 5 * time.Second, lookUnwritable},
	{"restart-due", Warning, "Settings were changed in the configuration file that the agent reads at its start only. It ends when the agent is started again, or when they are as they were.",
		"is in force as a whole", 0, 0, lookRestart},
}

// Names returns the names of all kinds.
func Names() []string {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = k.Name
	}
	return names
}

// kindNamed returns the kind with a name, nil if there is none.
func kindNamed(name string) *Kind {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return nil
	}
	return &Kinds[i]
}

// objects looks for workloads and groups about which text says something.
func objects(text func(Object) string, remedy string) func(look) []Finding {
	return func(l look) (found []Finding) {
		for _, o := range l.Objects {
			if t := text(o); t != "" {
				found = append(found, Finding{Subject{Type: o.Type, Name: o.Name}, t, fmt.Sprintf(remedy, o.Name)})
			}
		}
		return found
	}
}

func links(lost func(LinkSight) bool, remedy string) func(look) []Finding {
	return func(l look) (found []Finding) {
		for _, at := range l.Links {
			if lost(at) {
				found = append(found, Finding{at.subject(), at.Error, remedy})
			}
		}
		return found
	}
}

func lookDown(l look) (found []Finding) {
	for _, at := range l.Links {
		if at.Down != "" {
			text, remedy, _ := strings.Cut(at.Down, "; ")
			found = append(found, Finding{at.subject(), text, remedy})
		}
	}
	return found
}

func (l LinkSight) subject() Subject {
	return Subject{Type: Link, Name: l.Device, Direction: l.Direction}
}

func lookNotHeld(l look) []Finding {
	found := objects(func(o Object) string { return o.NotHeld }, "take it out of the policy, use a kernel with BPF qdiscs, or accept it with --accept-gaps; weir get %s names the field")(l)
	for _, at := range l.Links {
		if at.NotHeld != "" {
			found = append(found, Finding{at.subject(), at.NotHeld, "take it out of weir.yaml, use a kernel with BPF qdiscs, or accept it with accept_gaps: true in weir.yaml"})
		}
	}
	return found
}

func lookQuotaNear(l look) []Finding {
	return quotas(l, func(q Quota) (bool, string) {
		return q.Part >= quota.WarnAt, fmt.Sprintf("%.0f %% of its quota are used, until %s", math.Floor(100*q.Part), q.Until.UTC().Format(time.RFC3339))
	}, "raise its quota (weir set %s --quota), or let it send less; weir usage %[1]s says when it was used")
}

func lookQuotaReached(l look) []Finding {
	return quotas(l, func(q Quota) (bool, string) {
		held := "nothing is limited"
		if q.InForce != "" {
			held = q.InForce + " is in force"
		}
		return q.Reached, fmt.Sprintf("its quota is used up, %s until %s", held, q.Until.UTC().Format(time.RFC3339))
	}, "raise its quota (weir set %s --quota), or wait for the next period; weir usage %[1]s says when it was used")
}

func quotas(l look, holds func(Quota) (bool, string), remedy string) (found []Finding) {
	for _, o := range l.Objects {
		if o.Quota.Until.IsZero() {
			continue
		}
		if yes, text := holds(o.Quota); yes {
			how := fmt.Sprintf(remedy, o.Name)
			if o.Type == Group {
				how = fmt.Sprintf("raise its quota (weir group set %s --quota), or wait for the next period; weir usage %[1]s says when it was used", o.Name)
			}
			found = append(found, Finding{Subject{Type: o.Type, Name: o.Name}, text, how})
		}
	}
	return found
}

func lookRepaired(l look) (found []Finding) {
	for _, at := range l.Links {
		if at.Repaired != "" {
			found = append(found, Finding{at.subject(), "another program changed what Weir had set, and the agent has set it again: " + at.Repaired,
				"find the program (a network manager, a script with tc) and keep it off this device; weir doctor names some"})
		}
	}
	return found
}

func lookSources(l look) (found []Finding) {
	for _, s := range l.Sources {
		if s.Lost {
			text := "does not answer"
			if s.Note != "" {
				text += ": " + s.Note
			}
			found = append(found, Finding{Subject{Type: Source, Name: s.Name}, text, "start it again; if it is not used here, switch it off in weir.yaml"})
		}
	}
	return found
}

func lookConfig(l look) []Finding {
	if l.ConfigError == "" {
		return nil
	}
	return []Finding{{Subject{Type: Configuration, Name: l.ConfigFile}, l.ConfigError, "correct the file; weir config check says whether it is right"}}
}

func lookRestart(l look) []Finding {
	if len(l.RestartDue) == 0 {
		return nil
	}
	return []Finding{{Subject{Type: Configuration, Name: l.ConfigFile}, strings.Join(l.RestartDue, ", ") + ": in force from the next start of the agent on",
		"systemctl restart weir; packets flow on meanwhile"}}
}

func lookUnwritable(l look) (found []Finding) {
	for _, folder := range l.Unwritable {
		found = append(found, Finding{Subject{Type: Folder, Name: folder.Path}, folder.Note, "make room there, or mount it writable; weir doctor looks at both folders"})
	}
	return found
}
