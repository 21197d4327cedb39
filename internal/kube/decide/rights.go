// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
)

// AllowPrefix begins the labels of a namespace that let its pods say a restricted field:
// allow.weir.dev/min. Only administrators may set them; the admission policies hold that.
const AllowPrefix = "allow." + Prefix

// withinRights returns a change of a pod without the fields that its namespace may not say, and a
// mistake for each. The API server's admission policies refuse most of them, but not what stands
// inside of another field, nor what reaches a pod by another way.
func (w NodeInput) withinRights(p Pod, change policy.Change) (policy.Change, []*invalid.Error) {
	var mistakes []*invalid.Error
	for _, field := range change.Given() {
		for _, inner := range sayings(change, field) {
			msg, remedy := w.denied(p, inner)
			if msg == "" {
				continue
			}
			mistakes = append(mistakes, &invalid.Error{Field: Source(field, p.Annotations), Value: change.Texts()[field], Msg: msg, Remedy: remedy})
			change = change.Without(field)
			if outer, is := strings.CutSuffix(field, "queues"); is {
				change = change.Without(outer + "discipline") // which orders none
			}
			break
		}
	}
	return change, mistakes
}

// saying is a field that a change says, perhaps inside of another.
type saying struct {
	field   string
	weight  uint32
	bounded bool // it is no max of none
}

// inQueue and inZone are the fields of a queue and of what a policy says of a zone, with the field
// of the policy that each stands for; "" = it is about the workload's own packets among each other.
var (
	inQueue = map[string]string{"Name": "", "Rate": "", "Min": "", "Max": "", "Priority": "", "Match": "", "Reserve": "reserve", "DSCP": "dscp", "LimitPackets": "limit_packets"}
	inZone  = map[string]string{"Zone": "", "Weight": "weight", "Min": "min", "Max": "max"}
)

// sayings returns what a field of a change says: itself, and what stands in queues, zones or times.
// What is said of a zone without a max says that the workload has none there.
func sayings(change policy.Change, field string) []saying {
	if inner, is := strings.CutPrefix(field, "ingress."); is {
		list := sayings(*change.Ingress, inner)
		for i := range list {
			list[i].field = "ingress." + list[i].field
		}
		return list
	}
	p := change.To()
	list := []saying{{field, p.Weight, field != "max" || !p.Max.None()}}
	switch field {
	case "queues":
		for _, q := range p.Queues {
			list = append(list, within(inQueue, q)...)
		}
	case "zones":
		for _, z := range p.Zones {
			list = append(list, within(inZone, z)...)
			if z.Max.None() {
				list = append(list, saying{"max", 0, false})
			}
		}
	case "when":
		for _, then := range p.When {
			for _, name := range then.To.Given() {
				list = append(list, sayings(then.To, name)...)
			}
		}
	}
	return list
}

// within returns what the fields of a part of a policy say that are not zero.
func within(fields map[string]string, part any) []saying {
	var list []saying
	value := reflect.ValueOf(part)
	for at, field := range value.Fields() {
		if name := fields[at.Name]; name != "" && !field.IsZero() {
			s := saying{field: name, bounded: true}
			if weight, is := field.Interface().(uint32); is && name == "weight" {
				s.weight = weight
			}
			list = append(list, s)
		}
	}
	return list
}

// denied returns why a pod may not say something, with the remedy, "" if it may. Static pods are
// the node administrator's.
func (w NodeInput) denied(p Pod, s saying) (msg, remedy string) {
	switch {
	case slices.Contains(w.Forbidden, s.field):
		return "it says " + s.field + ", which annotations may not say on this node", "ask the node's administrator, or take it away"
	case p.Static:
		return "", ""
	case strings.HasSuffix(s.field, "weight") && w.MaxWeight != 0 && s.weight > w.MaxWeight:
		return fmt.Sprintf("annotations may give weights up to %d on this node", w.MaxWeight), "write less, or ask the node's administrator"
	case (slices.Contains(w.Restricted, s.field) || len(w.Restricted) > 0 && !s.bounded) && w.Labels[p.Namespace][AllowPrefix+strings.TrimPrefix(Annotation(s.field), Prefix)] != "true":
		return fmt.Sprintf("namespace %s may not say %s", p.Namespace, s.field), fmt.Sprintf("ask an administrator for the label %s=true on the namespace, or use a claim", AllowPrefix+strings.TrimPrefix(Annotation(s.field), Prefix))
	}
	return "", ""
}

// Source returns the words for where a field of a pod comes from.
func Source(field string, annotations map[string]string) string {
	if _, there := annotations[Annotation(field)]; !there {
		for name, stands := range Bandwidth {
			if _, there := annotations[name]; there && stands == field {
				return "annotation " + name
			}
		}
	}
	return said(field)
}
