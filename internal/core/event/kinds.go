// SPDX-License-Identifier: Apache-2.0

package event

import (
	"slices"
	"time"
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
	look     func(look) []Condition
	Many     Many // what is said of more than three of the kind in one line
}

// Many is what is wrong with all of many subjects, and what to do.
type Many struct{ Text, Remedy string }

// look is what a kind looks at. near reports whether the bound for an end counts instead of the
// one for a begin: the condition has been told.
type look struct {
	Sight
	bounds Bounds
	losses losses
	near   func(Subject) bool
}

// Kinds are all conditions. Those of the severities warning and error are problems as long as
// they hold. A new one is a row here; `go test ./internal/core/event -update` writes it into
// docs/events.md.
var Kinds = []Kind{
	{"link-gone", Error, "The device of a link is not there. It ends when it is, and the link is steered.",
		"is there and steered again", moment, 5 * time.Second, links(func(l LinkSight) bool { return l.Gone },
			"bring the device up (ip link), or take the link out of weir.yaml; the agent takes it over as soon as it is there"), Many{}},
	{"backend-lost", Error, "A link is not steered, or not as wanted, for another reason: its backend has ended, another program has set its qdisc, or the kernel refuses a change. It ends when the link is as wanted.",
		"is steered as wanted again", moment, 5 * time.Second, links(func(l LinkSight) bool { return l.Error != "" && !l.Gone },
			"the agent tries again every few seconds; weir doctor says what is in its way, journalctl -u weir what was tried"), Many{}},
	{"link-down", Error, "The device of a link is there and sends nothing: it is down, or has no carrier. It ends when it can send.",
		"can send again", moment, 5 * time.Second, lookDown, Many{}},
	{"not-steered", Error, "Traffic of a workload goes past a link: by a bridge that is the link, a second bridge, an overlay network, a data plane that redirects packets into it. It ends when all of it meets the link.",
		"meets the links with all of its traffic", moment, 5 * time.Second, lookPast,
		Many{"a part of their traffic goes past the links", "weir get NAME says which, and what to do"}},
	{"no-link", Warning, "No link is configured, so the agent steers nothing. It ends when one is.",
		"names a link", 0, 0, lookNoLink, Many{}},
	{"source-lost", Error, "A source of workloads, such as Docker, does not answer: those that are known stay, new ones are not seen. It ends when it answers. A container engine that is not on the host is not missed.",
		"answers again", moment, 5 * time.Second, lookSources, Many{}},
	{BadSwitchPort, Error, "A port of a switch has rows that are meant for Weir and cannot be held as they are, so it is no link. It ends when they can, or are no longer meant for Weir.",
		"is a link", 0, 0, reported(BadSwitchPort), Many{}},
	{"unwritable", Error, "The agent can write nothing in its state folder, or in that of the audit log: the disk is full, or read-only. It ends when there is room.",
		"can be written again", 0, 5 * time.Second, lookUnwritable, Many{}},
	{"config-wrong", Error, "The configuration file has a mistake; the one that was in force before stays so, over a restart of the agent too. It ends when the file is right.",
		"is right again, and in force", 0, 0, lookConfig, Many{}},
	{"refused", Warning, "A part of the policy of a workload or group is not in force, such as a min for which a link has no room. It ends when all of the policy is.",
		"has all of its policy", 0, 10 * time.Second,
		objects(func(o Object) string { return o.Refused }, "ask for less, lower the min of another one, or raise reservable at the link; weir explain %s has the numbers"),
		Many{"a part of the policy is not in force", "weir get NAME says why"}},
	{"not-held", Warning, "The backend of a link does not hold a part of a policy, or a setting of the link, on this kernel, and that was not accepted. It ends when it does, or when that is no longer asked for.",
		"is held as it was asked for", 0, 10 * time.Second, lookNotHeld,
		Many{"a part of the policy is not held on this kernel", "weir get NAME says which; --accept-gaps, or accept_gaps: true in weir.yaml, takes it so"}},
	{"restart-due", Warning, "Settings were changed in the configuration file that the agent reads at its start only. It ends when the agent is started again, or when they are as they were.",
		"is in force as a whole", 0, 0, lookRestart, Many{}},
	{NotServed, Warning, "An address at which weir.yaml has the page or the metrics served is not on this host yet, or is taken. The agent tries again every second; it ends when it is served.",
		"is served", 0, 0, reported(NotServed), Many{}},
	{BadCertificate, Warning, "A certificate that the agent uses has ended, cannot be read, or ends within 14 days. It ends when the file has a valid one.",
		"is valid", 0, 0, reported(BadCertificate), Many{}},
	{ManagerLost, Warning, "This host is to be a node of a cluster, and its manager cannot be reached or refuses it: containers are not moved from or to it. It ends when it is connected.",
		"is connected again", moment, 5 * time.Second, reported(ManagerLost), Many{}},
	{ClockWrong, Warning, "The clock of a node of a cluster is not synchronised: a node whose clock is more than a minute off refuses the manager's orders. It ends when it is.",
		"is right again", 0, 0, reported(ClockWrong), Many{}},
	{ClassLost, Warning, "Packets of workloads lose their class on this host, or may: in a WireGuard tunnel that is no link, and without `mark_mask` in a switch of Open vSwitch, at a tc filter of another program that ends with OK, and at a tcx program of another owner at a device between workloads and links, such as a bridge. The agent says it within 2 s, later where filters change all the time. It ends when the device, the filter or the program is gone, or `mark_mask` helps.",
		"takes no class of packets any more", 0, 0, reported(ClassLost), Many{"packets of workloads lose their class there", "weir doctor says why, and what helps"}},
	{FilterSkipped, Warning, "A filter of tc of another program at a workload's device does not do with what Weir steers into the workload what it does without Weir: it asks by which device a packet came (`indev`), and sees the second end of Weir's pair; or the kernel is older than 6.6, and skips filters there. The agent says it within 2 s, later where filters change all the time. It ends when the filter is gone, or no link's ingress is steered.",
		"has no filter any more that Weir misleads", 0, 0, reported(FilterSkipped), Many{"filters of other programs do not see what Weir steers as without it", "weir status --json has each filter"}},
	{MarkShared, Warning, "A rule or a socket (SO_MARK) of another program writes or compares a bit of the mark that `mark_mask` gives to Weir, or it cannot be told whether one does, or `mark_mask: auto` finds no bits that are free. The agent says it within 2 s, of a socket within 10 s, later where rules change all the time. It ends when none does.",
		"has bits of the mark for itself", 0, 0, reported(MarkShared), Many{}},
	{"undelivered", Warning, "The webhook or the command does not take events. It ends when it takes one.",
		"takes events again", 0, 0, lookSinks, Many{}},
	{"repaired", Notice, "Another program or a person has removed or changed what Weir had set at a link (a qdisc, a class, a filter, a map), and the agent has set it again. It ends when nothing was changed for a minute.",
		"has been left alone for a minute", 0, time.Minute, lookRepaired, Many{}},
	{"quota-near", Notice, "80 % of a quota are used. It ends when the quota is used up, when the next period begins, when the quota is raised, and when it is taken away.",
		"has used less than 80 % of its quota", 0, 0, lookQuotaNear, Many{}},
	{"quota-reached", Notice, "A quota is used up, and what its `then` says is in force. It ends when the next period begins, when the quota is raised, and when it is taken away.",
		"has some of its quota left again", 0, 0, lookQuotaReached, Many{}},
	{"drops", Notice, "For 10 s, more than the configured part of a workload's packets on a link was dropped for one reason (`tell.drops`; 10 % unless it says otherwise), and at least 10 a second. It ends when it was less than half of that for 30 s.",
		"drops few packets again", 10 * time.Second, 30 * time.Second, lookDrops, Many{}},
}

// The kinds that other parts of the program than the agent look for (Sight.Report).
const (
	NotServed      = "not-served"
	BadCertificate = "certificate"
	ManagerLost    = "manager-lost"
	ClockWrong     = "clock"
	BadSwitchPort  = "switch-port"
	ClassLost      = "class-lost"
	FilterSkipped  = "filter-skipped"
	MarkShared     = "mark-shared"
)

// moment is how long a fault lasts before it is told: less is what a driver or a daemon that
// is started again does.
const moment = time.Second

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
