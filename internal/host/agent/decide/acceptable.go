// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/internal/api"
	"weir/internal/core/invalid"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/core/policy/admission"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
)

// acceptable refuses a change of which something that was asked for does not come
// into force. What labels and the configuration ask for besides is not the
// caller's fault, unless the change is what makes it wrong.
func (r ChangeRequest) acceptable(before, after Decision) error {
	v, ok := after.Ruling(r.Key)
	if !ok {
		if v, ok = after.Group(r.Key); !ok {
			return nil
		}
		if err := r.holdsMembers(before, after, v); err != nil {
			return err
		}
	}
	was, existed := before.Ruling(r.Key)
	if !existed {
		was, existed = before.Group(r.Key)
	}
	if err := r.notHeld(v, existed); err != nil {
		return err
	}
	for _, device := range slices.Sorted(maps.Keys(v.Refusals)) {
		for _, err := range v.Refusals[device] {
			if err := r.fault(err, after.Plans[device].Link, was, v, len(after.Plans)); err != nil {
				return err
			}
		}
	}
	return r.takes(before, after)
}

// takes refuses a change because of which the min of another will not fit at some time.
func (r ChangeRequest) takes(before, after Decision) error {
	for _, v := range after.all() {
		for _, device := range slices.Sorted(maps.Keys(v.Refusals)) {
			for _, err := range v.Refusals[device] {
				refused, ok := errors.AsType[*admission.Refused](err)
				was, _ := before.any(v.Key)
				if !ok || v.Key == r.Key || refused.From.IsZero() || len(was.Refusals[device]) > 0 {
					continue
				}
				e := api.NoRoom(refused, device)
				e.Kind, e.Msg = refusal.Conflict, fmt.Sprintf("%s would have no room for its %s on link %s: %s", v.Name, refused.Field(), device, refused.Reason())
				return e
			}
		}
	}
	return nil
}

// fault returns the error to answer with if the refused thing is one that the request asked
// for, nil if it is not.
func (r ChangeRequest) fault(err error, link plan.Link, was, v Ruling, links int) error {
	device, prefix := link.Name(), "" // of fields
	if link.Direction == policy.Ingress {
		prefix = "ingress."
	}
	var refused *admission.Refused
	if errors.As(err, &refused) {
		field := prefix + refused.Field()
		e := api.NoRoom(refused, device)
		e.Field, e.Value, e.Msg = field, r.Given[field], fmt.Sprintf("link %s has no room for it: %s", device, refused.Reason())
		_, min := r.Given[field]
		if _, queues := r.Given[prefix+"queues"]; refused.Goodput != 0 && queues && !min { // one that a queue asks for
			min = true
		}
		group, joins := r.Given["group"]
		when, timed := r.Given[prefix+"when"]
		switch {
		case refused.Group != "":
			e.Msg = fmt.Sprintf("group %s has no room for it on link %s: %s", refused.Group, device, refused.Reason())
		case !min:
			e.Msg = fmt.Sprintf("link %s has no room for its %s: %s", device, refused.Field(), refused.Reason())
		}
		zones, zoned := r.Given[prefix+"zones"]
		switch {
		case zoned && (link.Aside || !min):
			e.Field, e.Value = prefix+"zones", zones
		case min:
		case timed:
			e.Field, e.Value = prefix+"when", when
		case joins:
			e.Field, e.Value = "group", group
		default:
			return nil
		}
		return e
	}
	var mistake *invalid.Error
	if !errors.As(err, &mistake) || len(r.Given) == 0 && v.Kind != workload.KindGroup {
		return nil
	}
	field := mistake.Root()
	if field != "group" {
		field = prefix + field
	}
	if field == "group" && v.groupless() < links {
		return nil // a scheduler without groups on one link does not forbid them on another
	}
	_, asked := r.Given[field]
	known := slices.ContainsFunc(was.Refusals[device], func(e error) bool {
		before, is := errors.AsType[*invalid.Error](e)
		return is && *before == *mistake
	})
	if !asked && known {
		return nil
	}
	e := api.Mistake(mistake)
	if field != "group" {
		e.Field = prefix + e.Field
	}
	if zones, zoned := r.Given[prefix+"zones"]; zoned && !asked {
		e.Field, e.Value = prefix+"zones", zones
	}
	if slices.Contains([]string{"min", "max", "reserve"}, strings.TrimPrefix(field, prefix)) || mistake.Field == "queues" { // which percentages make depend on the link
		e.Msg += " on link " + device
	}
	return e
}

// holdsMembers refuses a min or a max of a group that would take its members'
// mins away.
func (r ChangeRequest) holdsMembers(before, after Decision, group Ruling) error {
	for _, device := range slices.Sorted(maps.Keys(after.Plans)) {
		var floors []policy.Floor
		for _, class := range before.Plans[device].Classes {
			if class.Parent == group.Class && class.Parent != 0 {
				floors = append(floors, policy.Floor{Name: class.Name, Min: class.Min})
			}
		}
		link := after.Plans[device].Link
		asked := group.promised(link)
		for _, bound := range []struct {
			field string
			err   error
		}{
			{"min", admission.GroupMin(asked.Min.Of(link.Capacity), floors)},
			{"max", admission.GroupMax(asked.Max.Of(link.Capacity), floors)},
		} {
			var mistake *invalid.Error
			if errors.As(bound.err, &mistake) {
				value, asked := r.Given[bound.field]
				if !asked {
					value = mistake.Value
				}
				e := api.Mistake(mistake)
				e.Kind, e.Field, e.Value = refusal.Conflict, bound.field, value
				e.Msg += " on link " + device
				return e
			}
		}
	}
	return nil
}

// notHeld returns the error for the first gap that the request asks for and does not accept,
// nil if there is none.
func (r ChangeRequest) notHeld(v Ruling, existed bool) error {
	asked := map[string]string{} // values by the gap's field
	for field := range r.Given {
		asked[gapField(field)] = r.Given[gapField(field)] // "" for queues without a discipline
	}
	if v.Kind == workload.KindGroup && (len(r.Given) > 0 || !existed) {
		asked["group"] = ""
	}
	for _, g := range v.Gaps {
		if value, ok := asked[gapField(g.Field)]; ok && !g.Accepted {
			return g.Refusal(value)
		}
	}
	return nil
}
