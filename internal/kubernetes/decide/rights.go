// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/invalid"
	"weir/internal/policy"
)

// AllowPrefix begins the labels of a namespace that let its pods say a restricted field:
// allow.weir.dev/min. Only administrators may set them; the admission policies hold that.
const AllowPrefix = "allow." + Prefix

// withinRights returns a change of a pod without the fields that its namespace may not say, and a
// mistake for each. The API server's admission policies refuse most of them, but not what stands
// inside of another field, nor what reaches a pod by another way.
func (w World) withinRights(p Pod, change policy.Change) (policy.Change, []*invalid.Error) {
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

// sayings returns what a field of a change says: itself, and what stands in queues, zones or times.
func sayings(change policy.Change, field string) []saying {
	p, prefix, base := change.To(), "", field
	if inner, is := strings.CutPrefix(field, "ingress."); is {
		p, prefix, base = change.Ingress.To(), "ingress.", inner
	}
	of := func(name string, p policy.Policy) saying {
		return saying{prefix + name, p.Weight, name != "max" || !p.Max.None()}
	}
	list := []saying{of(base, p)}
	switch base {
	case "queues":
		for _, q := range p.Queues {
			if q.DSCP != nil {
				list = append(list, saying{prefix + "dscp", 0, true})
			}
			if !q.Reserve.None() {
				list = append(list, saying{prefix + "reserve", 0, true})
			}
		}
	case "zones":
		for _, z := range p.Zones {
			list = append(list, saying{prefix + "weight", z.Weight, true})
			if !z.Min.None() {
				list = append(list, saying{prefix + "min", 0, true})
			}
		}
	case "when":
		for _, then := range p.When {
			for _, name := range then.To.Given() {
				list = append(list, of(name, then.To.To()))
			}
		}
	}
	return list
}

// denied returns why a pod may not say something, with the remedy, "" if it may. Static pods are
// the node administrator's.
func (w World) denied(p Pod, s saying) (msg, remedy string) {
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
