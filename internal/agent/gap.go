// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/api"
	"weir/internal/dataplane"
	"weir/internal/policy"
	"weir/internal/refusal"
)

// gap is a part of a policy that the backend of a link does not hold on this kernel.
type gap struct {
	link         string // its name, see plan.Link.Name
	direction    policy.Direction
	device       string
	field, value string // a name of policy.AllNames; "group" also of a group itself
	reason       string // why the backend does not hold it
	origin       string // of the field, see api.Workload.Origin
	accepted     bool   // the user took it all the same
}

// What to do about a gap, for people.
const (
	gapKernel = "a kernel with BPF qdiscs (Linux 6.16 or later with CONFIG_NET_SCH_BPF) holds it"
	gapRemedy = gapKernel + "; --accept-gaps takes it all the same"
)

// String is the gap in a workload's note.
func (g gap) String() string {
	text := fmt.Sprintf("link %s: %s is not held: %s", g.link, g.what(), g.reason)
	if g.accepted {
		return text + " (accepted)"
	}
	return text
}

// what names the part of the policy: "discipline llq", "group tenant".
func (g gap) what() string {
	if g.value == "" {
		return g.field
	}
	return g.field + " " + g.value
}

// refusal is the answer to a request for what is not held.
func (g gap) refusal(value string) error {
	return &refusal.Error{Kind: refusal.NotHeld, Object: "link " + g.link, Field: g.field, Value: cmp.Or(value, g.value),
		Msg: fmt.Sprintf("link %s does not hold it: %s", g.link, g.reason), Remedy: gapRemedy}
}

// view is the gap as the API shows it.
func (g gap) view() api.PolicyGap {
	return api.PolicyGap{Device: g.device, Direction: string(cmp.Or(g.direction, policy.Egress)),
		Field: g.field, Value: g.value, Reason: g.reason, Accepted: g.accepted}
}

func gapViews(gaps []gap) []api.PolicyGap {
	var list []api.PolicyGap
	for _, g := range gaps {
		list = append(list, g.view())
	}
	return list
}

// lacking lists what a policy in one direction asks for and abilities do not hold;
// only field, value and reason of the gaps are set.
func lacking(p policy.Policy, abilities dataplane.Abilities) []gap {
	var gaps []gap
	if p.Group != "" && abilities.NoGroups {
		gaps = append(gaps, gap{field: "group", value: p.Group, reason: noGroups})
	}
	if p.LimitBytes != 0 && abilities.NoByteLimit {
		gaps = append(gaps, gap{field: "limit_bytes", value: strconv.FormatUint(p.LimitBytes, 10), reason: noByteLimit})
	}
	if !abilities.OneQueue {
		return gaps
	}
	if p.Discipline != "" && p.Discipline != abilities.Discipline {
		gaps = append(gaps, gap{field: "discipline", value: string(p.Discipline),
			reason: fmt.Sprintf("HTB has one queue for each workload, with discipline %s and no rules", abilities.Discipline)})
	}
	if p.AQM != (policy.AQM{}) && !sameAQM(p.AQM, abilities.AQM) {
		gaps = append(gaps, gap{field: "aqm", value: p.AQM.Compact(),
			reason: fmt.Sprintf("HTB has a queue with AQM %s for each workload", abilities.AQM.Compact())})
	}
	return gaps
}

const (
	// noGroups is why a group, and a workload's place in it, is not held.
	noGroups = "HTB has no groups: each member counts for itself, with its own weight, min and max"

	// noByteLimit is why a limit in bytes is not held.
	noByteLimit = "HTB's queue counts packets, whatever their size, and takes the limit as so many full frames; limit_packets is held"
)

func sameAQM(a, b policy.AQM) bool {
	targetA, intervalA := a.Of(policy.SFQ)
	targetB, intervalB := b.Of(policy.SFQ)
	return targetA == targetB && intervalA == intervalB
}

// findGaps notes what of the workload's policy the links do not hold.
func (v *verdict) findGaps(w world) {
	if !v.steered {
		return
	}
	for _, l := range w.links() {
		link := w.planned(l)
		asked := v.policyOn(link)
		if port := w.portAt(link.Device); port != nil && v.Kind == kindHost {
			asked.Discipline, asked.AQM = port.Policy.Discipline, port.Policy.AQM
		}
		if v.Kind == kindGroup {
			asked = policy.Policy{Group: v.Name}
		}
		for _, g := range lacking(asked, w.abilities[link.Name()]) {
			g.link, g.device, g.direction = link.Name(), link.Device, link.Direction
			if link.Direction == policy.Ingress && g.field != "group" {
				g.field = "ingress." + g.field
			}
			g.origin = v.gapOrigin(w, g.field)
			g.accepted = slices.Contains(w.accepted[v.Key], g.field) || w.config.AcceptGaps && g.origin != originSet
			v.gaps = append(v.gaps, g)
		}
	}
}

// gapOrigin says where the field of a gap comes from.
func (v *verdict) gapOrigin(w world, field string) string {
	if v.Kind != kindGroup {
		return v.origin[field]
	}
	if _, configured := w.configured(v.Name); configured {
		return originConfig
	}
	return originSet
}

// gapField is the field by which a gap names a field of a request; the queues go
// with their discipline.
func gapField(field string) string {
	return strings.Replace(field, "queues", "discipline", 1)
}

// accept notes which of the given fields were asked for with --accept-gaps, and
// forgets what was said of them before.
func (w *world) accept(key string, given map[string]string, accepts, reset bool) {
	if w.accepted == nil {
		w.accepted = map[string][]string{}
	}
	list := w.accepted[key]
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
	delete(w.accepted, key)
	if len(kept) > 0 {
		w.accepted[key] = slices.Sorted(maps.Keys(kept))
	}
}

// gapFields are the fields that a backend may lack.
var gapFields = slices.DeleteFunc(policy.AllNames(), func(name string) bool { return !policy.FieldOf(name).MayLack })

// notHeld is the error for the first gap that the change asks for and does not
// accept, nil if there is none.
func (t trial) notHeld(v verdict, existed bool) error {
	asked := map[string]string{} // values by the gap's field
	for field := range t.given {
		asked[gapField(field)] = t.given[gapField(field)] // "" for queues without a discipline
	}
	if v.Kind == kindGroup && (len(t.given) > 0 || !existed) {
		asked["group"] = ""
	}
	for _, g := range v.gaps {
		if value, ok := asked[g.field]; ok && !g.accepted {
			return g.refusal(value)
		}
	}
	return nil
}

// newGaps is the error for what a configuration asks for and no link holds, one line
// for each link, workload or group and field; nil where the gap was there before, or is
// accepted.
func newGaps(before, after decision, path string) error {
	said := map[string]bool{}
	before.eachGap(func(place string, g gap) { said[place+g.what()] = true })
	var wrong []error
	after.eachGap(func(place string, g gap) {
		if g.accepted || g.origin != originConfig || said[place+g.what()] {
			return
		}
		said[place+g.what()] = true
		wrong = append(wrong, fmt.Errorf("%s: %s: %s: link %s does not hold it: %s; %s; accept_gaps: true takes it all the same",
			path, place, g.what(), g.link, g.reason, gapKernel))
	})
	return errors.Join(wrong...)
}

// storedUnheld returns what a change from one layer to another stored that no link holds,
// as a person writes it, by field. A group is one that is not held as a whole.
func (v verdict) storedUnheld(from, to policy.Change, existed bool) map[string]string {
	unheld := map[string]string{}
	had := layerText(from)
	for field, value := range layerText(to) {
		lacks := func(g gap) bool { return v.Kind == kindGroup || g.field == gapField(field) }
		if had[field] != value && slices.ContainsFunc(v.gaps, lacks) {
			unheld[field] = value
		}
	}
	if v.Kind == kindGroup && !existed && len(unheld) == 0 && len(v.gaps) > 0 {
		unheld["group"] = v.Name
	}
	if len(unheld) == 0 {
		return nil
	}
	return unheld
}

// eachGap visits all gaps with the place in a configuration that they are about:
// "links: eth0", "groups: tenant", "workloads: web".
func (d decision) eachGap(visit func(place string, g gap)) {
	for _, link := range slices.Sorted(maps.Keys(d.linkGaps)) {
		for _, g := range d.linkGaps[link] {
			visit("links: "+g.device, g)
		}
	}
	for _, v := range slices.Concat(d.verdicts, d.groups) {
		place := "workloads: " + v.Name
		if v.Kind == kindGroup {
			place = "groups: " + v.Name
		}
		for _, g := range v.gaps {
			visit(place, g)
		}
	}
}

// abilities are those of the links' backends that lack something, by the links'
// names; of a link that is not steered, those that it had last.
func (a *Agent) abilities() map[string]dataplane.Abilities {
	known := map[string]dataplane.Abilities{}
	for _, l := range a.links {
		if l.backend != nil {
			l.abilities = l.backend.Abilities()
		}
		if l.abilities != (dataplane.Abilities{}) {
			known[l.config.Name()] = l.abilities
		}
	}
	return known
}

// learn decides anew where a link's backend holds more or less than the one that was
// decided for, as after a start on another kernel.
func (a *Agent) learn(ctx context.Context) {
	known := a.abilities()
	if maps.Equal(known, a.world.abilities) {
		return
	}
	next := a.world.clone()
	next.abilities = known
	a.adopt(ctx, rule(next, a.attached), reasons{general: "what the links' backends hold"})
}

// unheldText says where the queues of a workload do nothing.
func unheldText(v verdict) string {
	var links []string
	for _, g := range v.gaps {
		if g.field == "discipline" {
			links = append(links, g.link)
		}
	}
	if len(links) == 0 {
		return ""
	}
	return fmt.Sprintf(" On %s it waits with all other packets of %s: discipline %s is not held there.",
		strings.Join(links, ", "), v.Name, v.policy.Discipline)
}
