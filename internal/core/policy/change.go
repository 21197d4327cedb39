// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/core/bound"
	"weir/internal/core/closest"
	"weir/internal/core/invalid"
	"weir/internal/core/policy/discipline"
)

// Change says what some fields of a policy are to be; the others stay as they are. It is
// a layer of weir.yaml, what labels ask for, the body of a request, what state.json keeps
// of run-time settings, and what travels with a container that moves. The zero Change
// says nothing.
type Change struct {
	// Ingress is about what the workload receives; nil = says nothing. It has no Ingress.
	Ingress *Change
	// ReserveQueue names the queue that reserve is about; "" = the workload itself. Only
	// requests have it.
	ReserveQueue string

	given  uint64           // bit i: the field in row i of the table
	to     Policy           // the values of those fields, zero in the others
	faults []*invalid.Error // what could not be read; see Check
}

// MustChange returns the change that sets each named field to the text behind it:
// MustChange("weight", "3", "ingress.max", "20mbit"). It panics where Put would fail.
func MustChange(fieldsAndTexts ...string) Change {
	var c Change
	for pair := range slices.Chunk(fieldsAndTexts, 2) {
		if err := c.Put(pair[0], pair[1]); err != nil {
			panic(err)
		}
	}
	return c
}

// ChangeTo returns the change that gives a policy's values to the named fields.
func ChangeTo(p Policy, names ...string) Change {
	var c Change
	for _, name := range names {
		if inner, ok := strings.CutPrefix(name, ingressPrefix); ok {
			in := ChangeTo(p.In(Ingress), inner)
			if c.Ingress != nil {
				in = c.Ingress.Over(in)
			}
			c.Ingress = &in
			continue
		}
		c.Set(name, func(to *Policy) { fields[row(name)].kind.copy(to, &p) })
	}
	return c
}

// Empty reports whether the change says nothing.
func (c Change) Empty() bool {
	return c.given == 0 && len(c.faults) == 0 && c.ReserveQueue == "" && (c.Ingress == nil || c.Ingress.Empty())
}

// Gives reports whether the change says something of a field, by its name in AllNames.
func (c Change) Gives(name string) bool {
	if inner, ok := strings.CutPrefix(name, ingressPrefix); ok {
		return c.Ingress != nil && c.Ingress.Gives(inner)
	}
	i := row(name)
	return i >= 0 && c.given&(1<<i) != 0
}

// Given lists the fields, by their names in AllNames, of which the change says something.
func (c Change) Given() []string {
	var names []string
	for i, f := range fields {
		if c.given&(1<<i) != 0 {
			names = append(names, f.Name)
		}
	}
	if c.Ingress != nil {
		for _, name := range c.Ingress.Given() {
			names = append(names, ingressPrefix+name)
		}
	}
	return names
}

// To returns the values of the fields that Gives names; of the others it says nothing.
func (c Change) To() Policy { return c.to }

// Texts returns the fields that are given as a person writes them, by their names in
// AllNames.
func (c Change) Texts() map[string]string {
	texts := map[string]string{}
	for _, f := range c.faults {
		texts[f.Field] = f.Value
	}
	for i, f := range fields {
		if c.given&(1<<i) != 0 {
			texts[f.Name] = f.Write(c.to)
		}
	}
	if c.Ingress != nil {
		for name, text := range c.Ingress.Texts() {
			texts[ingressPrefix+name] = text
		}
	}
	return texts
}

// Over returns the change with what another says put on top.
func (c Change) Over(other Change) Change {
	for i, f := range fields {
		if other.given&(1<<i) == 0 {
			continue
		}
		f.kind.copy(&c.to, &other.to)
		c.given |= 1 << i
		if f.Name == "discipline" && !other.to.Discipline.HasQueues() {
			c.to.Queues = nil
			c.given |= 1 << row("queues")
		}
		if f.Name == "discipline" && !c.to.Isolation.Fits(other.to.Discipline) {
			c = c.Without("isolation")
		}
	}
	c.faults = slices.Concat(c.faults, other.faults)
	if other.Ingress != nil && !other.Ingress.Empty() {
		ingress := Change{}
		if c.Ingress != nil {
			ingress = *c.Ingress
		}
		c.Ingress = new(ingress.Over(*other.Ingress))
	}
	return c
}

// Apply returns p with what the change says put in place. A discipline without queues
// takes those of p away, and one that the isolation does not go with takes that.
func (c Change) Apply(p Policy) Policy {
	for i, f := range fields {
		if c.given&(1<<i) == 0 {
			continue
		}
		f.kind.copy(&p, &c.to)
		if f.Name == "discipline" && !p.Discipline.HasQueues() {
			p.Queues = nil
		}
		if f.Name == "discipline" && !p.Isolation.Fits(p.Discipline) {
			p.Isolation = discipline.ByFlow
		}
	}
	if c.Ingress != nil && !c.Ingress.Empty() {
		p.Ingress = new(c.Ingress.Apply(p.In(Ingress)))
	}
	return p
}

// Check reports the first mistake in the change as an *invalid.Error. Discipline and queues make
// sense together only, and so do burst and max. Each may come from another layer: queues alone
// are checked as those of the discipline that they fit, the others if both are here.
func (c Change) Check() error {
	if err := c.Readable(); err != nil {
		return err
	}
	switch queues, named := c.to.Queues, c.Gives("discipline"); {
	case !named && len(queues) > 0:
		c.Set("discipline", func(p *Policy) { p.Discipline = likely(queues) })
	case !named, !c.Gives("queues") && c.to.Discipline.HasQueues():
		c = c.Without("discipline").Without("queues")
	}
	if !c.Gives("max") {
		c = c.Without("burst")
	}
	if c.Ingress != nil {
		if err := c.Ingress.Check(); err != nil {
			return invalid.Within("ingress", err)
		}
		c.Ingress = nil
	}
	return c.Apply(Default()).Check()
}

// Readable reports as an *invalid.Error what in the JSON of the change could not be read.
func (c Change) Readable() error {
	if len(c.faults) > 0 {
		return c.faults[0]
	}
	if c.Ingress != nil {
		return invalid.Within("ingress", c.Ingress.Readable())
	}
	return nil
}

// Put sets one field, by its name in AllNames, from text: a weight, a rate or a share of
// the link, queues as YAML; the word for the field's default takes it away. The error is
// an *invalid.Error with the field in it.
func (c *Change) Put(name, text string) error {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(name, ingressPrefix); ok && slices.Contains(FieldNames(OnIngress), inner) {
		ingress := Change{}
		if c.Ingress != nil {
			ingress = *c.Ingress
		}
		err := ingress.Put(inner, text)
		c.Ingress = &ingress
		return invalid.Within("ingress", err)
	}
	i := row(name)
	if i < 0 {
		return &invalid.Error{Field: name, Value: text, Msg: "a policy has no such field", Remedy: DidYouMean(name, AllNames())}
	}
	if err := fields[i].read(&c.to, text); err != nil {
		return err
	}
	c.given |= 1 << i
	return nil
}

// read sets the field of a policy to what a text of bounded length says. Its *invalid.Error has
// the field's name.
func (f Field) read(p *Policy, text string) error {
	if len(text) > bound.Policy {
		return &invalid.Error{Field: f.Name, Value: text, Msg: fmt.Sprintf("%d bytes, %d are the most", len(text), bound.Policy), Remedy: "write less"}
	}
	err := f.kind.read(p, text)
	if e, ok := errors.AsType[*invalid.Error](err); ok && e.Field == "" {
		return invalid.InField(f.Name, err)
	}
	return err
}

// Set gives the named field the value that fill puts into a policy.
func (c *Change) Set(name string, fill func(*Policy)) {
	var p Policy
	fill(&p)
	i := row(name)
	fields[i].kind.copy(&c.to, &p)
	c.given |= 1 << i
}

// Only returns what the change says of the named fields.
func (c Change) Only(names ...string) Change {
	for _, name := range c.Given() {
		if !slices.Contains(names, name) {
			c = c.Without(name)
		}
	}
	return c
}

// Without returns the change that says nothing of a field, by its name in AllNames.
func (c Change) Without(name string) Change {
	if inner, ok := strings.CutPrefix(name, ingressPrefix); ok {
		if c.Ingress == nil {
			return c
		}
		if c.Ingress = new(c.Ingress.Without(inner)); c.Ingress.Empty() {
			c.Ingress = nil
		}
		return c
	}
	if i := row(name); i >= 0 {
		fields[i].kind.copy(&c.to, &Policy{})
		c.given &^= 1 << i
	}
	return c
}

// Known returns the change without the fields that MarshalJSON of another version wrote and
// this version does not know.
func (c Change) Known() Change {
	c.faults = slices.DeleteFunc(slices.Clone(c.faults), func(e *invalid.Error) bool {
		field, _, _ := strings.Cut(e.Field, ".")
		return row(field) < 0
	})
	if c.Ingress != nil {
		c.Ingress = new(c.Ingress.Known())
	}
	return c
}

// DidYouMean returns the remedy for a word that is not known: the known word that was
// probably meant, or all of them.
func DidYouMean(word string, known []string) string {
	if near := closest.Words(word, known, 1); len(near) > 0 {
		return "did you mean " + invalid.Quote(near[0]) + "?"
	}
	return "known here: " + strings.Join(known, ", ")
}
