// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostNamed bounds the number of subjects that a problem names.
const mostNamed = 3

// Fault is a condition that holds now and is no mere notice: what people call a
// problem. Several of one kind, workloads
// whose policies are not in force for example, are one Fault that names the first of them.
type Fault struct {
	Kind     string  `json:"kind" doc:"what kind of condition, docs/events.md" example:"link-down"`
	Severity string  `json:"severity" enum:"warning,error" doc:"error: workloads are not steered or not seen, or what is set would be lost"`
	Subject  Subject `json:"subject"`
	Count    int     `json:"count" doc:"of subjects; of more than one, subject is the first" example:"1"`
	Text     string  `json:"text" doc:"what is wrong, in a sentence" example:"link eth0: the device has no carrier, so nothing is sent"`
	Remedy   string  `json:"remedy" doc:"what to do"`
}

// String returns what is wrong, and what to do.
func (p Fault) String() string {
	return strings.TrimSuffix(p.Text+"; "+p.Remedy, "; ")
}

// Problems returns all that is wrong at a moment: errors first, then in the order of Kinds. It is
// empty, and not nil, where all is well. Status, page, metrics and doctor show this list; of the
// events those hold that are about the same findings.
func Problems(s Sight) []Fault {
	list := []Fault{}
	for _, k := range Kinds {
		if k.Severity == Notice {
			continue
		}
		found := k.look(look{Sight: s})
		if len(found) > mostNamed && k.Many.Text != "" {
			list = append(list, k.many(found))
			continue
		}
		for _, f := range found {
			list = append(list, Fault{k.Name, k.Severity, f.Subject, 1, f.Subject.called() + ": " + firstLine(f.Text), f.Remedy})
		}
	}
	slices.SortStableFunc(list, func(a, b Fault) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return list
}

// many returns one problem for many findings of a kind.
func (k Kind) many(found []Condition) Fault {
	var names []string
	for _, f := range found[:mostNamed] {
		names = append(names, f.Subject.called())
	}
	return Fault{k.Name, k.Severity, found[0].Subject, len(found),
		fmt.Sprintf("%s and %d more: %s", strings.Join(names, ", "), len(found)-mostNamed, k.Many.Text), k.Many.Remedy}
}

func rank(severity string) int { return slices.Index([]string{Error, Warning, Notice}, severity) }

// Failing reports whether a problem is an error: then weir status --check and weir doctor end
// with exit code 1.
func Failing(list []Fault) bool {
	return slices.ContainsFunc(list, func(p Fault) bool { return p.Severity == Error })
}

// firstLine returns a text's first line, with how many follow.
func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if !more {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, 1+strings.Count(rest, "\n"))
}
