// SPDX-License-Identifier: Apache-2.0

// Package gap has what a backend does not hold of a policy or of a link's settings on this
// kernel, and the words for it. Example: HTB has no groups, so for a workload of group
// tenant
//
//	gap.Lacking(policy, abilities, false)
//
// returns the field group, the value tenant, and the reason.
//
// It does not know links, workloads or who accepted what: package decide fills that in.
package gap

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/api"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/refusal"
	"weir/internal/host/dataplane"
)

// Gap is a part of a policy that the backend of a link does not hold on this kernel.
type Gap struct {
	Link         string // its name, see plan.Link.Name
	Direction    policy.Direction
	Device       string
	Field, Value string // a name of policy.AllNames; "group" also of a group itself
	Part         string // of the value, for people, such as "reserve of queue voice"; "" = all of it
	Reason       string // why the backend does not hold it
	Remedy       string // "" = the usual one
	Origin       string // of the field, see api.Workload.Origin
	Accepted     bool   // by the user, with --accept-gaps or accept_gaps
}

// What to do about a gap, for people.
const (
	Kernel = "a kernel with BPF qdiscs (Linux 6.16 or later with CONFIG_NET_SCH_BPF) holds it"
	Remedy = Kernel + "; --accept-gaps takes it all the same"
)

// String returns the gap as a workload's note has it.
func (g Gap) String() string {
	text := fmt.Sprintf("link %s: %s is not held: %s", g.Link, g.What(), g.Reason)
	if g.Accepted {
		return text + " (accepted)"
	}
	return text
}

// What returns the part of the policy: "discipline llq", "reserve of queue voice".
func (g Gap) What() string {
	switch {
	case g.Part != "":
		return g.Part
	case g.Value == "":
		return g.Field
	}
	return g.Field + " " + g.Value
}

// Refusal returns the answer to a request that the backend does not hold.
func (g Gap) Refusal(value string) error {
	return &refusal.Error{Kind: refusal.NotHeld, Object: "link " + g.Link, Field: g.Field, Value: cmp.Or(value, g.Value),
		Msg: fmt.Sprintf("link %s does not hold it: %s", g.Link, g.Reason), Remedy: cmp.Or(g.Remedy, Remedy)}
}

// Needs returns what holds the gap's part of the policy.
func (g Gap) Needs() string { return cmp.Or(g.Remedy, Kernel) }

// WithoutLink is the same in a sentence about the link itself.
func (g Gap) WithoutLink() string { return g.What() + " is not held on this kernel: " + g.Reason }

// Unaccepted returns the texts of the gaps that no accept_gaps allows, each once.
func Unaccepted(gaps []Gap, text func(Gap) string) string {
	var texts []string
	for _, g := range gaps {
		if said := text(g); !g.Accepted && !slices.Contains(texts, said) {
			texts = append(texts, said)
		}
	}
	return strings.Join(texts, "; ")
}

// View returns the gap as the API shows it.
func (g Gap) View() api.PolicyGap {
	return api.PolicyGap{Device: g.Device, Direction: string(cmp.Or(g.Direction, policy.Egress)),
		Field: g.Field, Value: g.Value, Reason: g.Reason, Accepted: g.Accepted}
}

// Views returns gaps as the API shows them.
func Views(gaps []Gap) []api.PolicyGap {
	var list []api.PolicyGap
	for _, g := range gaps {
		list = append(list, g.View())
	}
	return list
}

// Lacking lists what a policy in one direction asks for and abilities do not hold, of a workload
// that is known by its cgroup or not; only field, value and texts of the gaps are set.
func Lacking(p policy.Policy, abilities dataplane.Abilities, byCgroup bool) []Gap {
	var gaps []Gap
	if byCgroup {
		gaps = unmeasured(p, abilities)
	}
	if p.Group != "" && abilities.NoGroups {
		gaps = append(gaps, Gap{Field: "group", Value: p.Group, Reason: withoutGroups})
	}
	if p.LimitBytes != 0 && abilities.NoByteLimit {
		gaps = append(gaps, Gap{Field: "limit_bytes", Value: strconv.FormatUint(p.LimitBytes, 10), Reason: noByteLimit})
	}
	if p.Burst != 0 && abilities.NoBurst {
		gaps = append(gaps, Gap{Field: "burst", Value: p.Burst.String(), Reason: withoutBursts})
	}
	if len(p.Queues) > 0 && abilities.NoQueues && !abilities.OneQueue {
		gaps = append(gaps, Gap{Field: "queues", Reason: besideCilium, Remedy: queuesRemedy})
	}
	if !abilities.OneQueue {
		return gaps
	}
	if p.Discipline != "" && p.Discipline != abilities.Discipline {
		gaps = append(gaps, Gap{Field: "discipline", Value: string(p.Discipline),
			Reason: fmt.Sprintf("HTB has one queue for each workload, with discipline %s and no rules", abilities.Discipline)})
	}
	if p.Isolation != discipline.ByFlow && p.Isolation != discipline.NoIsolation {
		gaps = append(gaps, Gap{Field: "isolation", Value: string(p.Isolation), Reason: "HTB's queue for each workload tells connections apart, not hosts"})
	}
	if p.AQM != (discipline.AQM{}) && !sameAQM(p.AQM, abilities.AQM) {
		gaps = append(gaps, Gap{Field: "aqm", Value: p.AQM.Compact(),
			Reason: fmt.Sprintf("HTB has a queue with AQM %s for each workload", abilities.AQM.Compact())})
	}
	return gaps
}

// unmeasured lists the queues of a workload that is known by its cgroup whose goodput is asked for,
// and cannot be measured with these abilities.
func unmeasured(p policy.Policy, abilities dataplane.Abilities) (gaps []Gap) {
	if !abilities.NoQueueGoodput {
		return nil
	}
	for _, q := range p.Queues {
		if !q.Reserve.None() {
			gaps = append(gaps, Gap{Field: "queues", Part: "reserve of queue " + q.Name, Reason: withoutMark, Remedy: markRemedy})
		}
	}
	return gaps
}

// Measured returns a policy without the goodput of queues that cannot be measured, of a workload
// that is known by its cgroup or not: a controller would see nothing sent, and give the queue all.
func Measured(p policy.Policy, abilities dataplane.Abilities, byCgroup bool) policy.Policy {
	if byCgroup && len(unmeasured(p, abilities)) > 0 {
		p.Queues = slices.Clone(p.Queues)
		for i := range p.Queues {
			p.Queues[i].Reserve = policy.Amount{}
		}
	}
	return p
}

const (
	// withoutGroups is why a group, and a workload's place in it, is not held.
	withoutGroups = "HTB has no groups: each member counts for itself, with its own weight, min and max"

	// besideCilium is why queues are not held.
	besideCilium = "beside Cilium packets do not carry a queue: the bits for it are Cilium's"
	queuesRemedy = "mark_mask in weir.yaml names bits of the mark for it, and weir doctor those that are free; --accept-gaps takes it as one queue"

	// withoutMark is why the goodput of a queue is not held.
	withoutMark = "the goodput of what is known by its cgroup is measured there, where packets carry their queue only in the mark"
	markRemedy  = "mark_mask in weir.yaml names bits of the mark for it; a reserve of the whole workload needs none; --accept-gaps leaves the queue's out"

	// withoutBursts is why a burst is not held.
	withoutBursts = "HTB's rates are computed anew every 200 ms from what each workload is seen to send, which bursts would spoil; its max is held"

	// noByteLimit is why a limit in bytes is not held.
	noByteLimit = "HTB's queue counts packets, whatever their size, and takes the limit as so many full frames; limit_packets is held"
)

// sameAQM reports whether a backend whose AQM is b holds a. One that marks holds what drops,
// too: packets that can be marked are marked all the same.
func sameAQM(a, b discipline.AQM) bool {
	targetA, intervalA := a.Of(discipline.SFQ)
	targetB, intervalB := b.Of(discipline.SFQ)
	return targetA == targetB && intervalA == intervalB && (b.ECN || !a.ECN) && (b.ACKFilter || !a.ACKFilter)
}

// Sentences returns gaps as sentences.
func Sentences(gaps []Gap) []string {
	var text []string
	for _, g := range gaps {
		text = append(text, fmt.Sprintf("%s is not held here: %s.", strings.ToUpper(g.What()[:1])+g.What()[1:], g.Reason))
	}
	return text
}
