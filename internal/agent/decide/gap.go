// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/api"
	"weir/internal/dataplane"
	"weir/internal/policy"
	"weir/internal/policy/discipline"
	"weir/internal/refusal"
	"weir/internal/workload"
)

// Gap is a part of a policy that the backend of a link does not hold on this kernel.
type Gap struct {
	Link         string // its name, see plan.Link.Name
	Direction    policy.Direction
	Device       string
	Field, Value string // a name of policy.AllNames; "group" also of a group itself
	Reason       string // why the backend does not hold it
	Origin       string // of the field, see api.Workload.Origin
	Accepted     bool   // by the user, with --accept-gaps or accept_gaps
}

// What to do about a gap, for people.
const (
	gapKernel = "a kernel with BPF qdiscs (Linux 6.16 or later with CONFIG_NET_SCH_BPF) holds it"
	gapRemedy = gapKernel + "; --accept-gaps takes it all the same"
)

// String returns the gap as a workload's note has it.
func (g Gap) String() string {
	text := fmt.Sprintf("link %s: %s is not held: %s", g.Link, g.What(), g.Reason)
	if g.Accepted {
		return text + " (accepted)"
	}
	return text
}

// What returns the part of the policy: "discipline llq", "group tenant".
func (g Gap) What() string {
	if g.Value == "" {
		return g.Field
	}
	return g.Field + " " + g.Value
}

// refusal returns the answer to a request that the backend does not hold.
func (g Gap) refusal(value string) error {
	return &refusal.Error{Kind: refusal.NotHeld, Object: "link " + g.Link, Field: g.Field, Value: cmp.Or(value, g.Value),
		Msg: fmt.Sprintf("link %s does not hold it: %s", g.Link, g.Reason), Remedy: gapRemedy}
}

// view returns the gap as the API shows it.
func (g Gap) view() api.PolicyGap {
	return api.PolicyGap{Device: g.Device, Direction: string(cmp.Or(g.Direction, policy.Egress)),
		Field: g.Field, Value: g.Value, Reason: g.Reason, Accepted: g.Accepted}
}

// GapViews returns gaps as the API shows them.
func GapViews(gaps []Gap) []api.PolicyGap {
	var list []api.PolicyGap
	for _, g := range gaps {
		list = append(list, g.view())
	}
	return list
}

// lacking lists what a policy in one direction asks for and abilities do not hold;
// only field, value and reason of the gaps are set.
func lacking(p policy.Policy, abilities dataplane.Abilities) []Gap {
	var gaps []Gap
	if p.Group != "" && abilities.NoGroups {
		gaps = append(gaps, Gap{Field: "group", Value: p.Group, Reason: withoutGroups})
	}
	if p.LimitBytes != 0 && abilities.NoByteLimit {
		gaps = append(gaps, Gap{Field: "limit_bytes", Value: strconv.FormatUint(p.LimitBytes, 10), Reason: noByteLimit})
	}
	if p.Burst != 0 && abilities.NoBurst {
		gaps = append(gaps, Gap{Field: "burst", Value: p.Burst.String(), Reason: withoutBursts})
	}
	if !abilities.OneQueue {
		return gaps
	}
	if p.Discipline != "" && p.Discipline != abilities.Discipline {
		gaps = append(gaps, Gap{Field: "discipline", Value: string(p.Discipline),
			Reason: fmt.Sprintf("HTB has one queue for each workload, with discipline %s and no rules", abilities.Discipline)})
	}
	if p.AQM != (discipline.AQM{}) && !sameAQM(p.AQM, abilities.AQM) {
		gaps = append(gaps, Gap{Field: "aqm", Value: p.AQM.Compact(),
			Reason: fmt.Sprintf("HTB has a queue with AQM %s for each workload", abilities.AQM.Compact())})
	}
	return gaps
}

const (
	// withoutGroups is why a group, and a workload's place in it, is not held.
	withoutGroups = "HTB has no groups: each member counts for itself, with its own weight, min and max"

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
	return targetA == targetB && intervalA == intervalB && (b.ECN || !a.ECN)
}

// findGaps notes what of the workload's policy the links do not hold.
func (v *Verdict) findGaps(w World) {
	if !v.Steered {
		return
	}
	for _, l := range w.Links() {
		link := w.planned(l)
		asked := v.policyOn(link)
		if port := w.PortAt(link.Device); port != nil && v.Kind == workload.KindHost {
			asked.Discipline, asked.AQM = port.Policy.Discipline, port.Policy.AQM
		}
		if v.Kind == workload.KindGroup {
			asked = policy.Policy{Group: v.Name}
		}
		for _, g := range lacking(asked, w.Abilities[link.Name()]) {
			g.Link, g.Device, g.Direction = link.Name(), link.Place(), link.Direction
			if link.Direction == policy.Ingress && g.Field != "group" {
				g.Field = "ingress." + g.Field
			}
			g.Origin = v.gapOrigin(w, g.Field)
			g.Accepted = slices.Contains(w.Accepted[v.Key], g.Field) || w.Config.AcceptGaps && g.Origin != OriginSet
			v.Gaps = append(v.Gaps, g)
		}
	}
}

// gapOrigin says where the field of a gap comes from.
func (v *Verdict) gapOrigin(w World, field string) string {
	if v.Kind != workload.KindGroup {
		return v.Origin[field]
	}
	if _, configured := w.configured(v.Name); configured {
		return OriginConfig
	}
	return OriginSet
}

// gapField returns the field by which a gap names a field of a request; the queues go
// with their discipline.
func gapField(field string) string {
	return strings.Replace(field, "queues", "discipline", 1)
}

// accept notes which of the given fields were asked for with --accept-gaps, and
// forgets what was said of them before.
func (w *World) accept(key string, given map[string]string, accepts, reset bool) {
	if w.Accepted == nil {
		w.Accepted = map[string][]string{}
	}
	list := w.Accepted[key]
	if reset {
		list = nil
	}
	kept := map[string]bool{}
	for _, field := range list {
		kept[field] = true
	}
	for field := range given {
		delete(kept, gapField(field))
	}
	if accepts {
		for field := range given {
			if f := gapField(field); slices.Contains(gapFields, f) {
				kept[f] = true
			}
		}
	}
	delete(w.Accepted, key)
	if len(kept) > 0 {
		w.Accepted[key] = slices.Sorted(maps.Keys(kept))
	}
}

// gapFields are the fields that a backend may lack.
var gapFields = slices.DeleteFunc(policy.AllNames(), func(name string) bool { return !policy.FieldOf(name).MayLack })

// newGaps returns the error for what a configuration asks for and no link holds, one line
// for each link, workload or group and field; nil where the gap was there before, or is
// accepted.
func newGaps(before, after Decision, path string) error {
	said := map[string]bool{}
	before.eachGap(func(place string, g Gap) { said[place+g.What()] = true })
	var wrong []error
	after.eachGap(func(place string, g Gap) {
		if g.Accepted || g.Origin != OriginConfig || said[place+g.What()] {
			return
		}
		said[place+g.What()] = true
		wrong = append(wrong, fmt.Errorf("%s: %s: %s: link %s does not hold it: %s; %s; accept_gaps: true takes it all the same",
			path, place, g.What(), g.Link, g.Reason, gapKernel))
	})
	return errors.Join(wrong...)
}

// eachGap visits all gaps with the place in a configuration that they are about:
// "links: eth0", "groups: tenant", "workloads: web".
func (d Decision) eachGap(visit func(place string, g Gap)) {
	for _, link := range slices.Sorted(maps.Keys(d.LinkGaps)) {
		for _, g := range d.LinkGaps[link] {
			visit("links: "+g.Device, g)
		}
	}
	for _, v := range slices.Concat(d.Verdicts, d.Groups) {
		place := "workloads: " + v.Name
		if v.Kind == workload.KindGroup {
			place = "groups: " + v.Name
		}
		for _, g := range v.Gaps {
			visit(place, g)
		}
	}
}

// unheldText says where the queues of a workload do nothing.
func unheldText(v Verdict) string {
	var links []string
	for _, g := range v.Gaps {
		if g.Field == "discipline" {
			links = append(links, g.Link)
		}
	}
	if len(links) == 0 {
		return ""
	}
	return fmt.Sprintf(" On %s it waits with all other packets of %s: discipline %s is not held there.",
		strings.Join(links, ", "), v.Name, v.Policy.Discipline)
}
