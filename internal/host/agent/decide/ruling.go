// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/core/invalid"
	"weir/internal/core/paths"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/ceiling"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/dataplane"
	"weir/internal/host/discover"
)

// Ruling is what was decided about one workload or group.
type Ruling struct {
	discover.Workload
	Policy   policy.Policy     // in force at World.Now
	Until    time.Time         // when what is in force changes because of the time; zero = never
	Origin   map[string]string // where each field of the policy comes from: OriginSet, ...
	Class    plan.ClassID
	Steered  bool                     // it has a class
	State    string                   // workload.StateActive, ...
	Note     string                   // for people: what of the policy is not in force, and why
	Warnings []string                 // about rules that overlap
	Refusals map[string][]error       // by link: why the plan there does not hold all of the policy
	Gaps     []gap.Gap                // what the links' backends do not hold of the policy
	Past     []paths.UnsteeredTraffic // what of its traffic does not meet the links
	Cuts     []ceiling.Cut            // what is asked for and the administrator does not give
	taken    []paths.Port             // where its packets are taken
	// asks is what was asked for it, before it was held to what the administrator gives.
	asks policy.Change
	// allocated is what is allocated to the workload or group, by link; within, of a group,
	// what is allocated to its members.
	allocated, within map[string]policy.Rate
	// timed is the policy as it was asked for, some of which differs at times; nil = none does.
	timed *policy.Policy
	// untimed is why the times were left out; nil = they were not.
	untimed error
	// abilities are the world's.
	abilities map[string]dataplane.Abilities
}

// promised returns the workload's policy on a link, without a group where the link's
// backend has none, and without the goodput of queues where none is measured. The rest of what a
// backend lacks stays: it costs nothing, and queues mark packets with their DSCP all the same.
func (v *Ruling) promised(link plan.Link) policy.Policy {
	p := v.policyOn(link)
	p.When = nil // what it says of other times is planned for those times
	if v.abilities[link.Name()].NoGroups {
		p.Group = ""
	}
	return v.withAllocated(gap.Measured(p, v.abilities[link.Name()], len(v.Cgroups) > 0), link)
}

// policyOn returns the workload's policy in the direction of a link, and in its zone.
func (v *Ruling) policyOn(link plan.Link) policy.Policy {
	return v.policyIn(link).InZone(link.Part, link.Aside)
}

// policyIn returns the workload's policy in the direction of a link. The workload is in the
// same group in both directions.
func (v *Ruling) policyIn(link plan.Link) policy.Policy {
	if link.Direction != policy.Ingress {
		return v.Policy.In(policy.Egress)
	}
	asked := v.Policy
	if portless(v.Workload) {
		asked.Ingress = nil
	}
	p := asked.In(policy.Ingress)
	p.Group = v.Policy.Group
	return p
}

// conclude fills in the state and the note, when all else is known.
func (v *Ruling) conclude() {
	v.State = workload.StateActive
	switch {
	case !v.Steered:
		v.State = workload.StateUnsteered
	case len(v.Refusals) > 0:
		v.State = workload.StateRefused
		var notes []string
		for _, device := range slices.Sorted(maps.Keys(v.Refusals)) {
			for _, err := range v.Refusals[device] {
				notes = append(notes, fmt.Sprintf("link %s: %s", device, reason(err)))
			}
		}
		v.Note = join(append(notes, v.Note)...)
	case !present(v.Workload) && v.Kind != workload.KindHost && v.Kind != workload.KindGroup && v.Kind != workload.KindOwn:
		v.State = workload.StateWaiting
		v.Note = join(awaits(v.Workload), v.Note)
	case len(v.Gaps)+len(v.Past) > 0:
		v.State = workload.StateNotHeld
	}
	for _, f := range slices.Backward(v.Past) {
		if f.Reason != v.Awaits {
			v.Note = join(f.String(), v.Note)
		}
	}
	for _, g := range slices.Backward(v.Gaps) {
		v.Note = join(g.String(), v.Note)
	}
}

// awaits returns why a workload is waiting.
func awaits(w discover.Workload) string {
	switch {
	case w.Awaits != "":
		return w.Awaits
	case w.Kind == workload.KindUnit || w.Kind == workload.KindCgroup:
		return "it has no cgroup yet"
	}
	return "its network is not up"
}

// join returns the notes that are not empty as one.
func join(notes ...string) string {
	return strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "; ")
}

// reason returns the text for people of why a plan does not hold all of a policy.
func reason(err error) string {
	var refused *admission.Refused
	if errors.As(err, &refused) {
		return refused.Field() + " is not in force: " + refused.Reason()
	}
	var mistake *invalid.Error
	if errors.As(err, &mistake) {
		return mistake.Field + " is not in force: " + mistake.Msg
	}
	return err.Error()
}

// OwnWarnings returns the warnings that are not about the configuration's queues: those are
// among the configuration's own warnings.
func (v Ruling) OwnWarnings() []string {
	if v.Origin["queues"] == OriginConfig {
		return nil
	}
	return v.Warnings
}

// Faults returns sentences about what a link does not hold of the policy.
func (v Ruling) Faults(link string) []string {
	var text []string
	for _, err := range v.Refusals[link] {
		text = append(text, sentence(reason(err))+".")
	}
	here := slices.DeleteFunc(slices.Clone(v.Gaps), func(g gap.Gap) bool { return g.Link != link })
	return append(text, gap.Sentences(here)...)
}

// groupless counts the links on which the workload is refused its group, or the
// group itself.
func (v Ruling) groupless() int {
	n := 0
	for link := range v.Refusals {
		if v.groupRefused(link) {
			n++
		}
	}
	return n
}

// groupRefused reports whether a link has refused the workload its group, or the
// group itself.
func (v Ruling) groupRefused(link string) bool {
	return slices.ContainsFunc(v.Refusals[link], func(err error) bool {
		var mistake *invalid.Error
		return errors.As(err, &mistake) && mistake.Field == "group"
	})
}

// Missing reports whether the group has no class on a link.
func (v Ruling) Missing(link string) bool {
	return v.abilities[link].NoGroups || v.groupRefused(link)
}

// sentence returns text with a capital at its beginning.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// UntilView returns when what is in force changes because of the time, nil if never.
func (v Ruling) UntilView() *time.Time {
	if v.Until.IsZero() {
		return nil
	}
	return &v.Until
}
