// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strconv"
	"strings"

	"weir/internal/policy"
)

// Fields are the fields of a policy as weir.yaml spells them. Labels have the
// same names behind "weir.", with a dash for the underscore.
var Fields = []string{"weight", "min", "max", "limit_packets", "limit_bytes"}

// Layer is a policy of which only some fields are given; nil means that this
// layer says nothing and the one below counts.
type Layer struct {
	Weight       *uint32
	Min          *policy.Amount // the zero Amount takes a min away
	Max          *policy.Amount // the zero Amount takes a max away
	LimitPackets *uint32
	LimitBytes   *uint64
}

// Empty reports whether the layer says nothing.
func (l Layer) Empty() bool { return l == Layer{} }

// Over is the layer with what other says put on top.
func (l Layer) Over(other Layer) Layer {
	if other.Weight != nil {
		l.Weight = other.Weight
	}
	if other.Min != nil {
		l.Min = other.Min
	}
	if other.Max != nil {
		l.Max = other.Max
	}
	if other.LimitPackets != nil {
		l.LimitPackets = other.LimitPackets
	}
	if other.LimitBytes != nil {
		l.LimitBytes = other.LimitBytes
	}
	return l
}

// Apply is p with what the layer says put in place.
func (l Layer) Apply(p policy.Policy) policy.Policy {
	if l.Weight != nil {
		p.Weight = *l.Weight
	}
	if l.Min != nil {
		p.Min = *l.Min
	}
	if l.Max != nil {
		p.Max = *l.Max
	}
	if l.LimitPackets != nil {
		p.LimitPackets = *l.LimitPackets
	}
	if l.LimitBytes != nil {
		p.LimitBytes = *l.LimitBytes
	}
	return p
}

// Put sets one field, by its name in Fields, from text: a weight, a rate or a
// share of the link, "none" to take a min or max away. The error is a
// *policy.Error with the field in it.
func (l *Layer) Put(field, text string) error {
	text = strings.TrimSpace(text)
	switch field {
	case "weight":
		weight, err := policy.ParseWeight(text)
		if err != nil {
			return policy.InField(field, err)
		}
		l.Weight = &weight
	case "min":
		return putAmount(&l.Min, field, text)
	case "max":
		return putAmount(&l.Max, field, text)
	case "limit_packets":
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return notACount(field, text, "packets")
		}
		packets := uint32(n)
		l.LimitPackets = &packets
	case "limit_bytes":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return notACount(field, text, "bytes")
		}
		l.LimitBytes = &n
	default:
		return &policy.Error{Field: field, Value: text, Msg: "a policy has no such field", Remedy: didYouMean(field, Fields)}
	}
	return Layer{LimitPackets: l.LimitPackets, LimitBytes: l.LimitBytes}.Apply(policy.Default()).Check()
}

func putAmount(into **policy.Amount, field, text string) error {
	amount, err := policy.ParseAmount(text)
	if err != nil {
		return policy.InField(field, err)
	}
	*into = &amount
	return nil
}

func notACount(field, text, of string) error {
	return &policy.Error{Field: field, Value: text, Msg: "not a number of " + of,
		Remedy: "write a whole number without a unit, or 0 for the default"}
}

// Given lists the fields, by their names in Fields, of which the layer says
// something.
func (l Layer) Given() []string {
	said := []bool{l.Weight != nil, l.Min != nil, l.Max != nil, l.LimitPackets != nil, l.LimitBytes != nil}
	var given []string
	for i, field := range Fields {
		if said[i] {
			given = append(given, field)
		}
	}
	return given
}
