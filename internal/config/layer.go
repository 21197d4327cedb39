// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"

	"weir/internal/policy"
)

// Fields are the fields of a policy as weir.yaml spells them. Labels have the
// same names behind "weir.", with a dash for the underscore.
var Fields = []string{"weight", "min", "max", "reserve", "limit_packets", "limit_bytes", "discipline", "queues", "aqm", "dscp", "group"}

// IngressFields are the fields that a policy has for what comes to the workload.
// weir.yaml has them under ingress; where there is one name for a field, as in
// labels, Put and Given, it is "ingress." and the field.
var IngressFields = Fields[:len(Fields)-1]

// ingressPrefix is before each of IngressFields.
const ingressPrefix = "ingress."

// Names are the names of all fields as Put and Given have them.
func Names() []string {
	names := slices.Clone(Fields)
	for _, field := range IngressFields {
		names = append(names, ingressPrefix+field)
	}
	return names
}

// fileFields are the keys of a policy in weir.yaml.
var fileFields = append(slices.Clone(Fields), "ingress")

// GroupFields are the fields that a group has.
var GroupFields = Fields[:3]

// Layer is a policy of which only some fields are given; nil means that this
// layer says nothing and the one below counts.
type Layer struct {
	Weight       *uint32
	Min          *policy.Amount // the zero Amount takes a min away
	Max          *policy.Amount // the zero Amount takes a max away
	Reserve      *policy.Amount // the zero Amount takes a reservation away
	LimitPackets *uint32
	LimitBytes   *uint64
	Discipline   *policy.Discipline // one without queues takes those of the layers below away
	Queues       *[]policy.Queue    // all of them; an empty list takes them away
	AQM          *policy.AQM        // the zero AQM is the discipline's default
	DSCP         **uint8            // a pointer to nil leaves packets as they are
	Group        *string            // "" takes the workload out of its group
	Ingress      *Layer             // of IngressFields
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
	if other.Reserve != nil {
		l.Reserve = other.Reserve
	}
	if other.LimitPackets != nil {
		l.LimitPackets = other.LimitPackets
	}
	if other.LimitBytes != nil {
		l.LimitBytes = other.LimitBytes
	}
	if other.Discipline != nil {
		l.Discipline = other.Discipline
		if !other.Discipline.HasQueues() {
			l.Queues = &[]policy.Queue{}
		}
	}
	if other.Queues != nil {
		l.Queues = other.Queues
	}
	if other.AQM != nil {
		l.AQM = other.AQM
	}
	if other.DSCP != nil {
		l.DSCP = other.DSCP
	}
	if other.Group != nil {
		l.Group = other.Group
	}
	if other.Ingress != nil && !other.Ingress.Empty() {
		ingress := Layer{}
		if l.Ingress != nil {
			ingress = *l.Ingress
		}
		l.Ingress = new(ingress.Over(*other.Ingress))
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
	if l.Reserve != nil {
		p.Reserve = *l.Reserve
	}
	if l.LimitPackets != nil {
		p.LimitPackets = *l.LimitPackets
	}
	if l.LimitBytes != nil {
		p.LimitBytes = *l.LimitBytes
	}
	if l.Discipline != nil {
		p.Discipline = *l.Discipline
		if !p.Discipline.HasQueues() {
			p.Queues = nil
		}
	}
	if l.Queues != nil {
		p.Queues = *l.Queues
	}
	if l.AQM != nil {
		p.AQM = *l.AQM
	}
	if l.DSCP != nil {
		p.DSCP = *l.DSCP
	}
	if l.Group != nil {
		p.Group = *l.Group
	}
	if l.Ingress != nil && !l.Ingress.Empty() {
		p.Ingress = new(l.Ingress.Apply(p.In(policy.Ingress)))
	}
	return p
}

// Check reports the first mistake in the layer as an *policy.Error. Discipline and
// queues make sense together only, and each may come from another layer; so they
// are looked at if both are here.
func (l Layer) Check() error {
	if l.Discipline == nil || l.Queues == nil && l.Discipline.HasQueues() {
		l.Discipline, l.Queues = nil, nil
	}
	if l.Ingress != nil {
		if err := l.Ingress.Check(); err != nil {
			return policy.Within("ingress", err)
		}
		l.Ingress = nil
	}
	return l.Apply(policy.Default()).Check()
}

// Put sets one field, by its name in Names, from text: a weight, a rate or a
// share of the link, queues as YAML; "none" takes a min, a max, a reservation,
// queues, a DSCP or the group away. The error is a *policy.Error with the field in
// it.
func (l *Layer) Put(field, text string) error {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(field, ingressPrefix); ok && slices.Contains(IngressFields, inner) {
		ingress := Layer{}
		if l.Ingress != nil {
			ingress = *l.Ingress
		}
		err := ingress.Put(inner, text)
		l.Ingress = &ingress
		return policy.Within("ingress", err)
	}
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
	case "reserve":
		return putAmount(&l.Reserve, field, text)
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
	case "discipline":
		discipline, err := policy.ParseDiscipline(text)
		if err != nil {
			return err
		}
		l.Discipline = &discipline
	case "queues":
		queues, err := ParseQueues(text)
		if err != nil {
			return err
		}
		l.Queues = &queues
	case "aqm":
		aqm, err := policy.ParseAQM(text)
		if err != nil {
			return policy.InField(field, err)
		}
		l.AQM = &aqm
	case "dscp":
		dscp, err := ParseMarking(text)
		if err != nil {
			return policy.InField(field, err)
		}
		l.DSCP = &dscp
	case "group":
		return l.putGroup(text)
	default:
		return &policy.Error{Field: field, Value: text, Msg: "a policy has no such field", Remedy: didYouMean(field, Names())}
	}
	return Layer{LimitPackets: l.LimitPackets, LimitBytes: l.LimitBytes}.Check()
}

func (l *Layer) putGroup(text string) error {
	if text == "none" {
		text = ""
	} else if err := policy.CheckGroupName(text); err != nil {
		return err
	}
	l.Group = &text
	return nil
}

// ParseMarking reads the code point that packets are to be marked with, nil for
// "none" or nothing. The error is a *policy.Error without a field.
func ParseMarking(text string) (*uint8, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return nil, nil
	}
	value, err := policy.ParseDSCP(text)
	return &value, err
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

// Given lists the fields, by their names in Names, of which the layer says
// something.
func (l Layer) Given() []string {
	said := []bool{l.Weight != nil, l.Min != nil, l.Max != nil, l.Reserve != nil, l.LimitPackets != nil, l.LimitBytes != nil,
		l.Discipline != nil, l.Queues != nil, l.AQM != nil, l.DSCP != nil, l.Group != nil}
	var given []string
	for i, field := range Fields {
		if said[i] {
			given = append(given, field)
		}
	}
	if l.Ingress != nil {
		for _, field := range l.Ingress.Given() {
			given = append(given, ingressPrefix+field)
		}
	}
	return given
}

// Without is the layer that says nothing of a field, by its name in Names.
func (l Layer) Without(field string) Layer {
	if inner, ok := strings.CutPrefix(field, ingressPrefix); ok {
		if l.Ingress != nil {
			l.Ingress = new(l.Ingress.Without(inner))
		}
		return l
	}
	switch field {
	case "weight":
		l.Weight = nil
	case "min":
		l.Min = nil
	case "max":
		l.Max = nil
	case "reserve":
		l.Reserve = nil
	case "limit_packets":
		l.LimitPackets = nil
	case "limit_bytes":
		l.LimitBytes = nil
	case "discipline":
		l.Discipline = nil
	case "queues":
		l.Queues = nil
	case "aqm":
		l.AQM = nil
	case "dscp":
		l.DSCP = nil
	case "group":
		l.Group = nil
	}
	return l
}
