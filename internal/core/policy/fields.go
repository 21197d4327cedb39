// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/quota"
)

// Place is a set of places in which a field may stand.
type Place uint8

// The places.
const (
	OnWorkload Place = 1 << iota // the policy of a workload: what it sends
	OnIngress                    // the same for what it receives
	OnGroup                      // the policy of a group of workloads
)

// Form is the type of a value in JSON.
type Form uint8

// The forms.
const (
	Text   Form = iota // a string
	Number             // a whole number
	List               // a list of objects
)

// Field is a row of the table of fields: all that Weir has to know of a field so
// that weir.yaml, labels, the command line, the API, state.json, migrations and the
// documentation have it.
type Field struct {
	Name    string // in weir.yaml, the API and state.json
	On      Place
	Form    Form
	Flag    string // on the command line and as a label; "" = Name with dashes
	Value   string // what stands for a value in help texts, such as RATE|none
	Doc     string // what the field says, in a few words
	Group   string // the same of a group; "" = Doc
	Example string // one value
	None    string // the word for the default, "" = a number has 0, others have no such word
	Empty   string // what to write, where a value is empty
	Min     uint64 // of a Number
	Max     uint64 // of a Number; 0 = what Go's type holds
	Choices []string
	Always  bool // shown where it is at its default too
	Guarded bool // labels may say it only where weir.yaml allows that
	MayLack bool // a backend may not hold it, see dataplane.Abilities
	Timed   bool // it may differ at times, see Scheduled

	kind kind
}

// kind reads, writes and copies the values of a field.
type kind interface {
	read(p *Policy, text string) error // an *invalid.Error, which may lack the field
	text(p *Policy) string             // as a person writes it
	value(p *Policy) any               // in JSON
	copy(to, from *Policy)
}

// fields is the table. The order is that of documentation and of JSON.
var fields = []Field{
	{
		Name: "weight", On: OnWorkload | OnIngress | OnGroup, Form: Number, Value: "N", Example: "3", Min: 1, Max: MaxWeight, Always: true, Timed: true,
		Doc:   "how much it counts beside others, 1 to " + strconv.Itoa(MaxWeight),
		Group: "how much the group counts beside others, 1 to " + strconv.Itoa(MaxWeight),
		kind:  of[uint32]{func(p *Policy) *uint32 { return &p.Weight }, ParseWeight, count[uint32]},
	},
	{
		Name: "min", On: OnWorkload | OnIngress | OnGroup, Value: "RATE|none", Example: "20mbit", None: "none", Empty: emptyAmount, Always: true, Timed: true,
		Doc:   "rate it always gets when it wants it: 20mbit, 25%, or none",
		Group: "rate its members always get together: 20mbit, 25%, or none",
		kind:  of[Amount]{func(p *Policy) *Amount { return &p.Min }, ParseAmount, Amount.Compact},
	},
	{
		Name: "max", On: OnWorkload | OnIngress | OnGroup, Value: "RATE|none", Example: "40mbit", None: "none", Empty: emptyAmount, Always: true, Timed: true,
		Doc:   "rate it never exceeds: 20mbit, 25%, or none",
		Group: "rate its members never exceed together: 20mbit, 25%, or none",
		kind:  of[Amount]{func(p *Policy) *Amount { return &p.Max }, ParseAmount, Amount.Compact},
	},
	{
		Name: "burst", On: OnWorkload | OnIngress | OnGroup, Value: "SIZE|none", Example: "20MB", None: "none", MayLack: true,
		Empty: "write a size such as 20MB, or none",
		Doc:   "what it may send above its max after it was quiet: 20MB, or none",
		Group: "what its members may send above the group's max, together, after they were quiet: 20MB, or none",
		kind:  of[quota.Size]{func(p *Policy) *quota.Size { return &p.Burst }, parseBurst, writeBurst},
	},
	{
		Name: "reserve", On: OnWorkload | OnIngress, Value: "RATE|none", Example: "30mbit", None: "none", Empty: emptyAmount,
		Doc:  "goodput that a controller holds, payload alone: 10mbit, or none",
		kind: of[Amount]{func(p *Policy) *Amount { return &p.Reserve }, ParseAmount, Amount.Compact},
	},
	{
		Name: "limit_packets", On: OnWorkload | OnIngress, Form: Number, Value: "N", Example: "200", Max: 1<<32 - 1,
		Doc:  "how many packets may wait, 0 for the default",
		kind: of[uint32]{func(p *Policy) *uint32 { return &p.LimitPackets }, parseLimitPackets, count[uint32]},
	},
	{
		Name: "limit_bytes", On: OnWorkload | OnIngress, Form: Number, Value: "N", Example: "300000", MayLack: true,
		Doc:  "how many bytes may wait, 0 for the default",
		kind: of[uint64]{func(p *Policy) *uint64 { return &p.LimitBytes }, parseLimitBytes, count[uint64]},
	},
	{
		Name: "discipline", On: OnWorkload | OnIngress, Value: "NAME", Example: "llq", Choices: discipline.Names(), Always: true, MayLack: true,
		Doc:  "which of its own packets goes first: " + strings.Join(discipline.Names(), ", "),
		kind: of[discipline.Name]{func(p *Policy) *discipline.Name { return &p.Discipline }, discipline.Parse, func(d discipline.Name) string { return string(d.OrDefault()) }},
	},
	{
		Name: "queues", On: OnWorkload | OnIngress, Form: List, Flag: "queue", Value: "QUEUE|none", None: "none",
		Example: "voice: {rate: 1mbit, match: [{udp: 5001}]}",
		Doc:     "the queues of pq, cbwfq or llq, in order",
		kind:    of[[]Queue]{func(p *Policy) *[]Queue { return &p.Queues }, ParseQueues, writeQueues},
	},
	{
		Name: "aqm", On: OnWorkload | OnIngress, Value: "TARGET/INTERVAL[ ecn]", Example: "5ms/100ms ecn", None: "default", Always: true, MayLack: true,
		Empty: "write TARGET/INTERVAL such as 5ms/100ms or 5ms/100ms ecn, or on, off or default",
		Doc:   "CoDel's target and interval: 5ms/100ms, with ecn marks in place of drops, on, off, or default",
		kind:  of[discipline.AQM]{func(p *Policy) *discipline.AQM { return &p.AQM }, discipline.ParseAQM, discipline.AQM.Compact},
	},
	{
		Name: "isolation", On: OnWorkload | OnIngress, Value: "NAME", Example: "srchost", Choices: discipline.Isolations(), MayLack: true,
		Doc:  "what sfq takes for one flow, and the queue that takes the rest: flows, or all of a host by its address: srchost, dsthost, hosts; none: all that queue has",
		kind: of[discipline.Isolation]{func(p *Policy) *discipline.Isolation { return &p.Isolation }, discipline.ParseIsolation, discipline.Isolation.Compact},
	},
	{
		Name: "dscp", On: OnWorkload | OnIngress, Value: "DSCP|none", Example: "ef", None: "none", Guarded: true,
		Empty: "write a name such as ef, a number from 0 to 63, or none",
		Doc:   "code point written into its packets: ef, 46, or none",
		kind:  of[*uint8]{func(p *Policy) **uint8 { return &p.DSCP }, ParseMarking, marking},
	},
	{
		Name: "group", On: OnWorkload, Value: "GROUP|none", Example: "tenant-b", None: "none", Guarded: true, MayLack: true,
		Doc:  "group that it is in, see weir group set; or none",
		kind: of[string]{func(p *Policy) *string { return &p.Group }, parseGroup, func(name string) string { return name }},
	},
	{
		Name: "zones", On: OnWorkload | OnIngress | OnGroup, Value: "ZONES|none", Example: "lan max 200mbit", None: "none", Guarded: true,
		Empty: "write a zone's name and weight, min or max, or none",
		Doc:   "weight, min and max in single zones of a link: lan max 200mbit; cdn weight 3 min 5mbit; or none",
		kind:  of[[]Zoned]{func(p *Policy) *[]Zoned { return &p.Zones }, ParseZones, writeZones},
	},
	{
		Name: "quota", On: OnWorkload | OnGroup, Value: "QUOTA|none", Example: "egress 500GB per month then tell", None: "none", Guarded: true,
		Empty: "write sizes, a time and what then, or none",
		Doc:   "how much it may move in a month, week, day or some hours, and what then: egress 500GB per month then max 5mbit; or none",
		Group: "how much its members may move together in a month, week, day or some hours, and what then; or none",
		kind:  of[*quota.Quota]{func(p *Policy) **quota.Quota { return &p.Quota }, ParseQuota, writeQuota},
	},
	{
		Name: "when", On: OnWorkload | OnIngress | OnGroup, Value: "TIMES|none", Example: "mon-fri 08:00-18:00 Europe/Berlin weight 8", None: "none", Guarded: true,
		Empty: "write days, hours and what differs then, or none",
		Doc:   "what differs at times of the week: mon-fri 08:00-18:00 Europe/Berlin weight 8; sat-sun 00:00-24:00 max 5mbit; or none",
		// The kind is set by init: what it reads are fields again.
	},
}

func init() {
	fields[row("when")].kind = of[[]Scheduled]{func(p *Policy) *[]Scheduled { return &p.When }, ParseWhen, writeWhen}
}

const emptyAmount = "write a rate such as 20mbit, a share such as 25%, or none"

// Fields returns the rows of the table whose fields may stand in any of the places, in
// order.
func Fields(on Place) []Field {
	return slices.DeleteFunc(slices.Clone(fields), func(f Field) bool { return f.On&on == 0 })
}

// FieldNames returns the names of the fields that may stand in a place.
func FieldNames(on Place) []string {
	var names []string
	for _, f := range Fields(on) {
		names = append(names, f.Name)
	}
	return names
}

// ingressPrefix is before the name of each field that is about ingress, where all fields
// of a workload have one name.
const ingressPrefix = "ingress."

// AllNames returns the names of all fields of a workload: the fields of its egress, and
// behind "ingress." the fields of its ingress.
func AllNames() []string {
	names := FieldNames(OnWorkload)
	for _, name := range FieldNames(OnIngress) {
		names = append(names, ingressPrefix+name)
	}
	return names
}

// Hyphenated returns the field's name as command line and labels spell it.
func (f Field) Hyphenated() string {
	return cmp.Or(f.Flag, f.Label())
}

// Label returns the field's name as labels spell it, without "weir.".
func (f Field) Label() string { return strings.ReplaceAll(f.Name, "_", "-") }

// Write returns the field of a policy as a person writes it, so that it can be read
// again: "20mbit", "3", and the word for the default.
func (f Field) Write(p Policy) string { return cmp.Or(f.kind.text(&p), f.None) }

// View returns the field of a policy for people and JSON, in the field's form; "" is the
// default of a text.
func (f Field) View(p Policy) any { return f.kind.value(&p) }

// AtDefault reports whether a policy says nothing of the field.
func (f Field) AtDefault(p Policy) bool {
	none := Default()
	return f.kind.text(&p) == f.kind.text(&none)
}

// Same reports whether two policies say the same of a field, by its name in AllNames.
func Same(name string, p, q Policy) bool {
	if inner, ok := strings.CutPrefix(name, ingressPrefix); ok {
		return Same(inner, p.In(Ingress), q.In(Ingress))
	}
	k := fields[row(name)].kind
	return k.text(&p) == k.text(&q)
}

// FieldOf returns the row of a field by its name in AllNames; there has to be one.
func FieldOf(name string) Field { return fields[row(strings.TrimPrefix(name, ingressPrefix))] }

// row returns the place of a field in the table, -1 if there is none of that name.
func row(name string) int {
	return slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
}

// of is a field whose values are a T.
type of[T any] struct {
	at    func(*Policy) *T
	parse func(string) (T, error)
	write func(T) string // "" = the default of a text
}

func (k of[T]) read(p *Policy, text string) error {
	v, err := k.parse(text)
	if err == nil {
		*k.at(p) = v
	}
	return err
}

func (k of[T]) text(p *Policy) string { return k.write(*k.at(p)) }

func (k of[T]) copy(to, from *Policy) { *k.at(to) = *k.at(from) }

func (k of[T]) value(p *Policy) any {
	v := any(*k.at(p))
	switch v.(type) {
	case uint32, uint64, []Queue:
		return v
	}
	return k.text(p)
}

func count[T uint32 | uint64](n T) string { return strconv.FormatUint(uint64(n), 10) }

func parseLimitPackets(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, notACount(text, "packets", MaxLimitPackets)
	}
	return uint32(n), checkLimitPackets("limit_packets", uint32(n))
}

func parseLimitBytes(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, notACount(text, "bytes", MaxLimitBytes)
	}
	return n, Policy{LimitBytes: n}.checkLimits()
}

func notACount(text, of string, most uint64) error {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return &invalid.Error{Value: text, Msg: "out of range", Remedy: fmt.Sprintf("write %d or less, or 0 for the default", most)}
	}
	return &invalid.Error{Value: text, Msg: "not a number of " + of, Remedy: "write a whole number without a unit, or 0 for the default"}
}

// ParseMarking reads the code point that packets are to be marked with, nil for
// "none" or nothing. The error is an *invalid.Error, which may lack the field.
func ParseMarking(text string) (*uint8, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return nil, nil
	}
	value, err := classify.ParseDSCP(text)
	return &value, err
}

func marking(dscp *uint8) string {
	if dscp == nil {
		return ""
	}
	return classify.DSCPName(*dscp)
}

func parseBurst(text string) (quota.Size, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return 0, nil
	}
	size, err := quota.ParseSize(text)
	var wrong *invalid.Error
	if errors.As(err, &wrong) && strings.Trim(text, "0.") == "" {
		err = &invalid.Error{Value: text, Msg: "a burst of 0", Remedy: "write a size such as 20MB, or none"}
	}
	return size, err
}

func writeBurst(size quota.Size) string {
	if size == 0 {
		return ""
	}
	return size.String()
}

func parseGroup(text string) (string, error) {
	if text == "none" {
		return "", nil
	}
	return text, CheckGroupName(text)
}

// DocOn returns what the field says in a place.
func (f Field) DocOn(on Place) string {
	if on == OnGroup {
		return cmp.Or(f.Group, f.Doc)
	}
	return f.Doc
}
