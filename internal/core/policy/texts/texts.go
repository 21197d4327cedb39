// SPDX-License-Identifier: Apache-2.0

// Package texts keeps what texts of fields say, by their content. Labels and annotations are read
// at each decision, many a second where others start containers; the same text says the same each
// time and is parsed once:
//
//	kept := &texts.Kept{}
//	kept.Put(&change, "queues", label) // parses
//	kept.Put(&change, "queues", label) // does not
//
// What it keeps is bounded (mostTexts, mostBytes). What is read after that many other texts is
// parsed again. It is no source of truth: with a nil *Kept the result is the same.
package texts

import (
	"strings"

	"weir/internal/core/policy"
)

// Bounds of one generation; two are kept. What a text says takes up to some 20 times its bytes.
const (
	mostTexts = 4096
	mostBytes = 1 << 20
)

// Kept is what texts say. The zero value is ready. It is for one goroutine at a time.
type Kept struct {
	// Parsed counts the texts that were parsed.
	Parsed int

	young, old map[text]meaning
	bytes      int // of the texts in young
}

// text is one text of a field, by the field's name in policy.AllNames.
type text struct{ field, value string }

// meaning is what a text says: a change of that field, or why it cannot be read.
type meaning struct {
	says policy.Change
	err  error
}

// Put sets one field of a change from text as Change.Put does, but that a text that cannot be
// read leaves the change as it was.
func (k *Kept) Put(c *policy.Change, field, value string) error {
	m := k.meaning(text{field, value})
	if m.err == nil {
		give(c, field, m.says)
	}
	return m.err
}

func (k *Kept) meaning(t text) meaning {
	if k == nil {
		return parse(t)
	}
	m, known := k.young[t]
	if known {
		return m
	}
	if m, known = k.old[t]; !known {
		m = parse(t)
		k.Parsed++
	}
	size := len(t.field) + len(t.value)
	if k.young == nil || len(k.young) >= mostTexts || k.bytes+size > mostBytes {
		k.young, k.old, k.bytes = map[text]meaning{}, k.young, 0
	}
	k.young[t] = m
	k.bytes += size
	return m
}

func parse(t text) (m meaning) {
	m.err = m.says.Put(t.field, t.value)
	return m
}

// give sets one field of a change to what another says of it.
func give(c *policy.Change, field string, says policy.Change) {
	const ingress = "ingress."
	if inner, of := strings.CutPrefix(field, ingress); of {
		in := policy.Change{}
		if c.Ingress != nil {
			in = *c.Ingress
		}
		give(&in, inner, *says.Ingress)
		c.Ingress = &in
		return
	}
	c.Set(field, func(p *policy.Policy) { *p = says.To() })
}
