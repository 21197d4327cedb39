// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/core/policy"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide/gap"
)

// findGaps notes what of the workload's policy the links do not hold.
func (v *Ruling) findGaps(w World) {
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
		for _, g := range gap.Lacking(asked, w.Abilities[link.Name()], len(v.Cgroups) > 0) {
			g.Link, g.Device, g.Direction = link.Name(), link.Place(), link.Direction
			if link.Direction == policy.Ingress && g.Field != "group" {
				g.Field = "ingress." + g.Field
			}
			g.Origin = v.gapOrigin(w, g.Field)
			g.Accepted = slices.Contains(w.Accepted[v.Key], gapField(g.Field)) || w.Config.AcceptGaps && g.Origin != OriginSet
			v.Gaps = append(v.Gaps, g)
		}
	}
}

// gapOrigin says where the field of a gap comes from.
func (v *Ruling) gapOrigin(w World, field string) string {
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
	before.eachGap(func(place string, g gap.Gap) { said[place+g.What()] = true })
	var wrong []error
	after.eachGap(func(place string, g gap.Gap) {
		if g.Accepted || g.Origin != OriginConfig || said[place+g.What()] {
			return
		}
		said[place+g.What()] = true
		wrong = append(wrong, fmt.Errorf("%s: %s: %s: link %s does not hold it: %s; %s; accept_gaps: true takes it all the same",
			path, place, g.What(), g.Link, g.Reason, g.Needs()))
	})
	return errors.Join(wrong...)
}

// eachGap visits all gaps with the place in a configuration that they are about:
// "links: eth0", "groups: tenant", "workloads: web".
func (d Decision) eachGap(visit func(place string, g gap.Gap)) {
	for _, link := range slices.Sorted(maps.Keys(d.LinkGaps)) {
		for _, g := range d.LinkGaps[link] {
			visit("links: "+g.Device, g)
		}
	}
	for _, v := range slices.Concat(d.Rulings, d.Groups) {
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
func unheldText(v Ruling) string {
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
