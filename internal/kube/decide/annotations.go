// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/texts"
)

// Prefix begins the annotations that are Weir's: weir.dev/min, weir.dev/ingress.max.
const Prefix = "weir.dev/"

// Bandwidth are the annotations that CNI plugins read, with the fields that they stand for.
// One of Weir's about the same field counts before them.
var Bandwidth = map[string]string{
	"kubernetes.io/egress-bandwidth":  "max",
	"kubernetes.io/ingress-bandwidth": "ingress.max",
}

// longest is the number of bytes that a bandwidth annotation may have. Parsing a longer
// number would take long, and no rate needs more.
const longest = 64

// Annotation returns the annotation that says a field, by its name in policy.AllNames.
func Annotation(field string) string { return Prefix + strings.ReplaceAll(field, "_", "-") }

// said returns a field as a fault names it.
func said(field string) string { return "annotation " + Annotation(field) }

// fieldsOn returns the fields that annotations may say in a place, by their names in
// policy.AllNames.
func fieldsOn(place policy.Place) []string {
	if place == policy.OnWorkload {
		return policy.AllNames()
	}
	return policy.FieldNames(place)
}

// read returns what annotations say, and what is wrong in them: each mistake once, with the
// annotation as its field. What is wrong is left out. At most bound.Labels of Weir's are read,
// and of each at most bound.Label bytes.
func (w NodeInput) read(annotations map[string]string, place policy.Place, forbidden []string) (policy.Change, []*invalid.Error) {
	r := reader{from: map[string]string{}, values: annotations, texts: w.Texts}
	fields := fieldsOn(place)
	own := slices.DeleteFunc(slices.Sorted(maps.Keys(annotations)), func(name string) bool { return !strings.HasPrefix(name, Prefix) })
	if count := len(own); count > bound.Labels {
		own = own[:bound.Labels]
		r.fault(own[bound.Labels-1], &invalid.Error{Msg: fmt.Sprintf("%d annotations of Weir's, %d are the most: none behind this one counts", count, bound.Labels), Remedy: "take some away"})
	}
	for _, name := range own {
		label := strings.TrimPrefix(name, Prefix)
		i := slices.IndexFunc(fields, func(f string) bool { return Annotation(f) == name })
		switch {
		case i < 0:
			r.fault(name, &invalid.Error{Value: annotations[name], Msg: "is not known here", Remedy: known(label, fields)})
		case slices.Contains(forbidden, fields[i]):
			r.fault(name, &invalid.Error{Value: annotations[name], Msg: "annotations may not say this on this node", Remedy: "ask the node's administrator, or take it away"})
		default:
			r.put(name, fields[i], annotations[name])
		}
	}
	if place == policy.OnWorkload {
		for _, name := range slices.Sorted(maps.Keys(Bandwidth)) {
			if text, there := annotations[name]; there && !r.change.Gives(Bandwidth[name]) {
				r.putBandwidth(name, Bandwidth[name], text)
			}
		}
	}
	r.check()
	return r.change, r.mistakes
}

func known(label string, fields []string) string {
	var names []string
	for _, f := range fields {
		names = append(names, strings.TrimPrefix(Annotation(f), Prefix))
	}
	return policy.DidYouMean(label, names)
}

// reader puts a change together out of annotations.
type reader struct {
	values   map[string]string
	change   policy.Change
	from     map[string]string // the annotation that said a field
	texts    *texts.Kept
	mistakes []*invalid.Error
}

// fault notes what is wrong with an annotation.
func (r *reader) fault(name string, err error) {
	mistake := invalid.Error{Value: r.values[name], Msg: err.Error()}
	if e, ok := errors.AsType[*invalid.Error](err); ok {
		mistake = *e
		if mistake.Value == "" {
			mistake.Value = r.values[name]
		}
	}
	mistake.Field = "annotation " + name
	r.mistakes = append(r.mistakes, &mistake)
}

func (r *reader) put(name, field, text string) {
	if len(text) > bound.Label {
		r.fault(name, &invalid.Error{Value: text, Msg: fmt.Sprintf("%d bytes, %d are the most", len(text), bound.Label), Remedy: "write less"})
		return
	}
	if strings.TrimSpace(text) == "" {
		r.fault(name, &invalid.Error{Msg: "is empty, and says nothing", Remedy: "write a value, or take it away"})
		return
	}
	next := r.change
	if next.Ingress != nil {
		next.Ingress = new(*next.Ingress)
	}
	if err := r.texts.Put(&next, field, text); err != nil {
		r.fault(name, err)
		return
	}
	r.change, r.from[field] = next, name
}

// putBandwidth reads a rate as Kubernetes writes quantities: 10M are 10 Mbit/s, and 500m half
// a bit.
func (r *reader) putBandwidth(name, field, text string) {
	q, err := resource.Quantity{}, error(nil)
	if len(text) <= longest {
		q, err = resource.ParseQuantity(strings.TrimSpace(text))
	}
	low, high := q.CmpInt64(int64(policy.MinRate)) < 0, q.CmpInt64(int64(policy.MaxRate)) > 0
	switch {
	case len(text) > longest || err != nil:
		r.fault(name, &invalid.Error{Value: text, Msg: "not a quantity", Remedy: "write bits per second such as 10M, 500k or 1G"})
	case q.Sign() < 0:
		r.fault(name, &invalid.Error{Value: text, Msg: "a rate cannot be negative", Remedy: "write bits per second such as 10M"})
	case strings.HasSuffix(strings.TrimSpace(text), "m") && low:
		r.fault(name, &invalid.Error{Value: text, Msg: "m is a thousandth: this is " + q.AsDec().String() + " bit/s", Remedy: "write M for Mbit/s"})
	case low || high:
		r.fault(name, &invalid.Error{Value: text, Msg: "out of range", Remedy: "write 1k to 1P, in bits per second"})
	default:
		r.put(name, field, policy.Rate(q.Value()).Compact())
	}
}

// check takes out of the change what does not go together, such as a min above the max, until
// the rest does.
func (r *reader) check() {
	for range len(r.from) {
		mistake, ok := errors.AsType[*invalid.Error](r.change.Check())
		if !ok {
			return
		}
		field := r.blamed(mistake.Field)
		if field == "" {
			return
		}
		r.fault(r.from[field], mistake)
		delete(r.from, field)
		r.change = r.change.Without(field)
	}
}

// blamed returns the given field that a mistake is about, "" if there is none left: of
// "ingress.queues.voice.rate" it is "ingress.queues". A mistake between two fields may name
// the one that was not given; then it is any that was.
func (r *reader) blamed(path string) string {
	best := ""
	for field := range r.from {
		if (path == field || strings.HasPrefix(path, field+".")) && len(field) > len(best) {
			best = field
		}
	}
	if best != "" {
		return best
	}
	prefix := ""
	if strings.HasPrefix(path, "ingress.") {
		prefix = "ingress."
	}
	for _, field := range []string{"queues", "discipline", "reserve", "min", "max", "limit_bytes", "limit_packets", "aqm"} {
		if _, given := r.from[prefix+field]; given {
			return prefix + field
		}
	}
	return ""
}
