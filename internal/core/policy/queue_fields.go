// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/classify"
	"weir/internal/core/yamltree"
)

// QueueField is a row of the table of what a queue says beside its name.
type QueueField struct {
	Name string // in weir.yaml and the API
	Form Form
	Max  uint64 // of a Number
	Doc  string // what the field says, in a few words

	read  func(q *Queue, value any) error // of a decoded tree, see QueuesFrom; an *invalid.Error
	write func(q Queue) any               // in JSON; nil = not given
}

// queueFields is the table; the order is that of documentation and of JSON.
var queueFields = []QueueField{
	queueAmount("rate", "of llq's first queue: what it is held to while others wait", func(q *Queue) *Amount { return &q.Rate }),
	queueAmount("min", "of cbwfq and llq: what the queue is weighed by", func(q *Queue) *Amount { return &q.Min }),
	queueAmount("max", "what the queue never exceeds", func(q *Queue) *Amount { return &q.Max }),
	queueAmount("reserve", "goodput that a controller holds for the queue", func(q *Queue) *Amount { return &q.Reserve }),
	{Name: "match", Form: List, Doc: "what belongs here: a packet that one of them fits; the queue without any takes the rest",
		read: (*Queue).readMatch, write: func(q Queue) any {
			if len(q.Match) == 0 {
				return nil
			}
			return q.Match
		}},
	{Name: "dscp", Doc: "code point written into its packets",
		read: readQueue(ParseMarking, func(q *Queue) **uint8 { return &q.DSCP }), write: func(q Queue) any { return text(marking(q.DSCP)) }},
	{Name: "limit_packets", Form: Number, Max: 1<<32 - 1, Doc: "how many packets may wait in it",
		read: readQueue(parseQueueLimit, func(q *Queue) *uint32 { return &q.LimitPackets }), write: func(q Queue) any { return number(q.LimitPackets) }},
	{Name: "priority", Form: Number, Max: 1<<8 - 1, Doc: "of pq: 1 goes first, the same take turns; none = by place",
		read: readQueue(parsePriority, func(q *Queue) *uint8 { return &q.Priority }), write: func(q Queue) any { return number(q.Priority) }},
}

// QueueFields returns the rows of the table, in order.
func QueueFields() []QueueField { return slices.Clone(queueFields) }

// Text returns the field of a queue as a person writes it in weir.yaml, "" if it is not
// given.
func (f QueueField) Text(q Queue) string {
	switch v := f.write(q).(type) {
	case nil:
		return ""
	case []classify.Match:
		return strings.ReplaceAll(fmt.Sprint(v), "} {", "}, {")
	default:
		return fmt.Sprint(v)
	}
}

func queueNames() []string {
	names := make([]string, len(queueFields))
	for i, f := range queueFields {
		names[i] = f.Name
	}
	return names
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func number[T uint8 | uint32](n T) any {
	if n == 0 {
		return nil
	}
	return n
}

func queueAmount(name, doc string, at func(*Queue) *Amount) QueueField {
	return QueueField{Name: name, Doc: doc, read: readQueue(ParseAmount, at), write: func(q Queue) any { return text(at(&q).Compact()) }}
}

// readQueue reads single values of a queue.
func readQueue[T any](parse func(string) (T, error), at func(*Queue) *T) func(*Queue, any) error {
	return func(q *Queue, value any) error {
		text, single := value.(string)
		if !single {
			return &invalid.Error{Msg: yamltree.Describe(value) + " where a single value is expected", Remedy: "write one"}
		}
		v, err := parse(text)
		*at(q) = v
		return err
	}
}

func (q *Queue) readMatch(value any) error {
	matches, err := classify.ParseMatches(yamltree.AsMaps(value))
	if len(matches) > 0 {
		q.Match = matches
	}
	var mistake *invalid.Error
	if errors.As(err, &mistake) && !strings.HasPrefix(mistake.Field, "match") {
		return invalid.InField("match."+mistake.Field, err)
	}
	return err
}

func parseQueueLimit(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		err = notACount(text, "packets", MaxLimitPackets)
	}
	return uint32(n), err
}

func parsePriority(text string) (uint8, error) {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil || n == 0 {
		return 0, &invalid.Error{Value: text, Msg: "is no priority", Remedy: "write 1 for what goes first, 2 for what goes after it, and so on"}
	}
	return uint8(n), nil
}

// QueuesFrom reads queues from a decoded tree: a mapping of names to queues, or a list of
// queues with names. Each fault is an *invalid.Error whose field is the way to the value, such as
// "voice.rate" or "[0].match"; the values without a fault are returned beside.
func QueuesFrom(tree any) (queues []Queue, faults []*invalid.Error) {
	queues = []Queue{}
	fault := func(at string, err error) {
		var mistake *invalid.Error
		if errors.As(classify.InList(at, err), &mistake) {
			faults = append(faults, mistake)
		}
	}
	read := func(at string, q Queue, fields any) {
		mapping, ok := fields.(yamltree.Mapping)
		if !ok && fields != nil {
			fault(at, &invalid.Error{Value: q.Name, Msg: yamltree.Describe(fields) + " where fields are expected", Remedy: "write it as {rate: 1mbit, match: [{udp: 5001}]}"})
			return
		}
		if q.Name == "" {
			fault(at, &invalid.Error{Field: "name", Msg: "is missing", Remedy: "say what the queue is to be called"})
		}
		for _, e := range mapping {
			if e.Value == nil {
				continue
			}
			if err := q.read(e); err != nil {
				fault(at, err)
			}
		}
		queues = append(queues, q)
	}
	switch v := tree.(type) {
	case nil:
	case yamltree.Mapping:
		if len(v) > MaxQueues {
			fault("", tooManyQueues(len(v), v[MaxQueues].Key))
			return queues, faults
		}
		for _, e := range v {
			read(e.Key, Queue{Name: e.Key}, e.Value)
		}
	case []any:
		if len(v) > MaxQueues {
			fault("", tooManyQueues(len(v), ""))
			return queues, faults
		}
		for i, item := range v {
			at := fmt.Sprintf("[%d]", i)
			q, rest := named(item)
			read(at, q, rest)
		}
	default:
		fault("", &invalid.Error{Msg: yamltree.Describe(v) + " where queues are expected", Remedy: queuesRemedy})
	}
	return queues, faults
}

const queuesRemedy = "write it as {voice: {rate: 1mbit, match: [{udp: 5001}]}, rest: {}}"

// named takes the name out of a queue in a list.
func named(item any) (q Queue, rest any) {
	mapping, ok := item.(yamltree.Mapping)
	if !ok {
		return q, item
	}
	left := yamltree.Mapping{}
	for _, e := range mapping {
		if name, single := e.Value.(string); e.Key == "name" && single {
			q.Name = name
			continue
		}
		left = append(left, e)
	}
	return q, left
}

// read reads one of the queue's fields.
func (q *Queue) read(e yamltree.KeyValue) error {
	for _, f := range queueFields {
		if f.Name != e.Key {
			continue
		}
		err := f.read(q, e.Value)
		var mistake *invalid.Error
		if errors.As(err, &mistake) && mistake.Field == "" {
			return invalid.InField(f.Name, err)
		}
		return err
	}
	return &invalid.Error{Field: e.Key, Value: e.Key, Msg: "unknown key", Remedy: DidYouMean(e.Key, queueNames())}
}

// MarshalJSON writes the queue as QueuesFrom reads it from a list.
func (q Queue) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	name, err := json.Marshal(q.Name)
	fmt.Fprintf(&b, `{"name":%s`, name)
	for _, f := range queueFields {
		value := f.write(q)
		if value == nil {
			continue
		}
		text, failed := json.Marshal(value)
		err = errors.Join(err, failed)
		fmt.Fprintf(&b, `,%q:%s`, f.Name, text)
	}
	return []byte(b.String() + "}"), err
}

// writeQueues returns queues as ParseQueues reads them, "" for none.
func writeQueues(queues []Queue) string {
	if len(queues) == 0 {
		return ""
	}
	text, err := json.Marshal(queues) // JSON is YAML
	if err != nil {
		return err.Error() // refused as such; what was read can be written
	}
	return string(text)
}
