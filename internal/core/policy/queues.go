// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// MaxQueues is the largest number of queues with rules that a workload can have; WEIR_MAX_QUEUES
// in bpf/weir.h is the same number.
const MaxQueues = 8

// Queue is one of a workload's queues in pq, cbwfq and llq. The order of the
// queues is the order in which their rules are tried, and in pq their priority.
type Queue struct {
	Name string
	// Rate is the rate that llq polices its first queue to while others wait; no other
	// queue has one.
	Rate Amount
	// Min is the weight of the queue in cbwfq and llq; either all of them have one
	// or none, which makes them equal.
	Min Amount
	// Max is the rate that the queue never exceeds; none by default.
	Max Amount
	// Reserve is a goodput that a controller holds for the queue: it gets as much,
	// and no more; none by default.
	Reserve Amount
	// Priority orders pq's queues, 1 first; queues with the same take turns. Either
	// all have one, in order, or none (0), and each goes before the next.
	Priority uint8
	// Match lists what belongs here: a packet that one of them fits. The queue
	// without any, else the last one, takes what fits nowhere.
	Match []classify.Match
	// DSCP is written into the queue's packets; nil = left as it is.
	DSCP *uint8
	// LimitPackets bounds the queue; 0 = default.
	LimitPackets uint32
}

var queueName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,31}$`)

// checkQueues reports the first mistake in the discipline and its queues as far
// as it does not depend on a link.
func (p Policy) checkQueues() error {
	d := p.Discipline.OrDefault()
	if err := d.Check(); err != nil {
		return err
	}
	if err := p.AQM.Check(); err != nil {
		return invalid.InField("aqm", err)
	}
	if p.AQM.ACKFilter && d == discipline.FIFO {
		return &invalid.Error{Field: "aqm", Value: p.AQM.Compact(), Msg: "ack-filter looks at the ACKs of one connection, and fifo has all packets in one queue", Remedy: "use sfq, pq, cbwfq or llq, or leave ack-filter out"}
	}
	if err := p.Isolation.Check(d); err != nil {
		return invalid.InField("isolation", err)
	}
	if err := checkDSCP("dscp", p.DSCP); err != nil {
		return err
	}
	if err := p.checkNumber(d); err != nil {
		return err
	}
	named := map[string]bool{}
	for i, q := range p.Queues {
		for j, m := range q.Match {
			if err := m.Check(); err != nil {
				return classify.InList(fmt.Sprintf("queues.%s.match[%d]", q.Name, j), err)
			}
		}
		if err := q.check(d, i == 0); err != nil {
			return err
		}
		if named[q.Name] {
			return &invalid.Error{Field: "queues", Value: q.Name, Msg: "two queues of this name", Remedy: "give each a name of its own"}
		}
		named[q.Name] = true
	}
	if err := checkPriorities(p.Queues); err != nil {
		return err
	}
	if d.Weighs() {
		if err := checkMins(d, p.weighed()); err != nil {
			return err
		}
	}
	return p.checkRules()
}

// likely returns the discipline that queues fit by the fields that they have.
func likely(queues []Queue) discipline.Name {
	switch {
	case slices.ContainsFunc(queues, func(q Queue) bool { return !q.Rate.None() }):
		return discipline.LLQ
	case slices.ContainsFunc(queues, func(q Queue) bool { return !q.Min.None() }):
		return discipline.CBWFQ
	}
	return discipline.PQ
}

// checkNumber holds how many queues a discipline has.
func (p Policy) checkNumber(d discipline.Name) error {
	n := len(p.Queues)
	switch {
	case n > 0 && !d.HasQueues():
		why := "sfq gives each flow a queue of its own"
		if d == discipline.FIFO {
			why = "fifo has a single queue"
		}
		return &invalid.Error{Field: "discipline", Value: string(d), Msg: fmt.Sprintf("%s, and %d with rules are given", why, n),
			Remedy: "write pq, cbwfq or llq, or leave the queues out"}
	case n == 0 && d.HasQueues():
		return &invalid.Error{Field: "discipline", Value: string(d), Msg: "there are no queues for it to order",
			Remedy: fmt.Sprintf("give 1 to %d under queues, such as voice: {match: [{dscp: ef}]}", MaxQueues)}
	case n > MaxQueues:
		return tooManyQueues(n, p.Queues[MaxQueues].Name)
	}
	return nil
}

// tooManyQueues refuses more queues than MaxQueues, of which first is the first beyond.
func tooManyQueues(n int, first string) *invalid.Error {
	return &invalid.Error{Field: "queues", Value: first, Msg: fmt.Sprintf("%d queues, %d are the most", n, MaxQueues),
		Remedy: "put several matches into one queue"}
}

// check reports the first mistake in one queue; first says that it is the first.
func (q Queue) check(d discipline.Name, first bool) error {
	if err := CheckQueueName(q.Name); err != nil {
		return err
	}
	refuse := func(field string, a Amount, msg, remedy string) error {
		return &invalid.Error{Field: q.field(field), Value: a.Compact(), Msg: msg, Remedy: remedy}
	}
	if err := q.Rate.Check(); err != nil {
		return invalid.InField(q.field("rate"), err)
	}
	if err := q.Min.Check(); err != nil {
		return invalid.InField(q.field("min"), err)
	}
	if err := q.Max.Check(); err != nil {
		return invalid.InField(q.field("max"), err)
	}
	if err := q.Reserve.Check(); err != nil {
		return invalid.InField(q.field("reserve"), err)
	}
	strict := d == discipline.LLQ && first
	switch {
	case strict && q.Rate.None():
		return refuse("rate", q.Rate, "the first queue of llq goes before all others and needs a rate that it is held to",
			"write one such as 1mbit")
	case strict && !q.Reserve.None():
		return refuse("reserve", q.Reserve, "the first queue of llq is held to its rate already",
			"leave its reserve out; other queues can have one")
	case strict && !q.Min.None():
		return refuse("min", q.Min, "the first queue of llq has a rate instead", "leave its min out")
	case !q.Max.None() && !q.Reserve.None():
		return refuse("max", q.Max, "a queue gets what it reserves and no more", "leave its max out")
	case !strict && !q.Rate.None() && d == discipline.LLQ:
		return refuse("rate", q.Rate, "only the first queue of llq is held to a rate", "write min instead")
	case !strict && !q.Rate.None():
		return refuse("rate", q.Rate, fmt.Sprintf("a queue of %s is held to no rate", d), "leave it out, or use llq")
	case !d.Weighs() && !q.Min.None():
		return refuse("min", q.Min, "pq knows only the order of its queues", "leave it out, or use cbwfq or llq")
	}
	if d != discipline.PQ && q.Priority != 0 {
		return &invalid.Error{Field: q.field("priority"), Value: fmt.Sprint(q.Priority),
			Msg: fmt.Sprintf("queues of %s have no priorities", d), Remedy: "leave it out, or use pq"}
	}
	if err := checkLimitPackets(q.field("limit_packets"), q.LimitPackets); err != nil {
		return err
	}
	return checkDSCP(q.field("dscp"), q.DSCP)
}

// CheckQueueName refuses what cannot be a queue's name. The error is an *invalid.Error for the
// field "queues".
func CheckQueueName(name string) error {
	if queueName.MatchString(name) {
		return nil
	}
	return &invalid.Error{Field: "queues", Value: name, Msg: "cannot be a queue's name",
		Remedy: "use up to 32 letters, digits, dots, dashes and underscores, a letter or digit first"}
}

// field returns the name that errors give one of the queue's fields.
func (q Queue) field(name string) string { return "queues." + q.Name + "." + name }

func checkDSCP(field string, value *uint8) error {
	if value == nil || *value <= classify.MaxDSCP {
		return nil
	}
	_, err := classify.ParseDSCP(fmt.Sprint(*value))
	return invalid.InField(field, err)
}

// weighed returns the queues that share by their mins: all but llq's strict one.
func (p Policy) weighed() []Queue {
	if p.Discipline == discipline.LLQ && len(p.Queues) > 0 {
		return p.Queues[1:]
	}
	return p.Queues
}

// checkPriorities refuses queues of which only some have a priority, and a queue whose
// priority is higher than that of the queue before it.
func checkPriorities(queues []Queue) error {
	for i, q := range queues {
		refuse := func(msg, remedy string) error {
			return &invalid.Error{Field: q.field("priority"), Value: fmt.Sprint(q.Priority), Msg: msg, Remedy: remedy}
		}
		switch {
		case (q.Priority == 0) != (queues[0].Priority == 0):
			return refuse("some queues have a priority and some have none", "give all of them one, or none")
		case i > 0 && q.Priority < queues[i-1].Priority:
			return refuse(fmt.Sprintf("goes before %s, which stands before it", queues[i-1].Name),
				"write the queues in the order of their priorities, 1 first")
		}
	}
	return nil
}

// checkMins refuses queues of which some have a min and some neither a min nor a reservation.
func checkMins(d discipline.Name, queues []Queue) error {
	var with, without []string
	for _, q := range queues {
		switch {
		case !q.Min.None():
			with = append(with, q.Name)
		case q.Reserve.None(): // a reservation is weighed by what it takes
			without = append(without, q.Name)
		}
	}
	if len(with) == 0 || len(without) == 0 {
		return nil
	}
	return &invalid.Error{Field: Queue{Name: without[0]}.field("min"),
		Msg: fmt.Sprintf("%s weighs its queues by their mins: %s %s one, %s %s none", d,
			invalid.Listed(with, "and"), have(with), invalid.Listed(without, "and"), have(without)),
		Remedy: "give each a min, or none of them, which makes them equal"}
}

func have(names []string) string {
	if len(names) == 1 {
		return "has"
	}
	return "have"
}

// checkQueueSum refuses promises of the queues that exceed the rate that the workload
// has for certain, which is its min where it has one, or that exceed its max or the
// link's capacity.
func (p Policy) checkQueueSum(capacity Rate, overhead int, c Sharer) error {
	if !p.Discipline.Weighs() {
		return nil
	}
	var floors []Floor
	var parts []string
	for _, q := range p.Queues {
		amount, word := q.Min, "min"
		if !q.Rate.None() {
			amount, word = q.Rate, "rate"
		}
		if reserved := WireOf(q.Reserve.Of(capacity), overhead); reserved > amount.Of(capacity) {
			amount, word = Amount{Rate: reserved}, "wire rate of the reserve"
		}
		if limit := q.Max.Of(capacity); limit != 0 && amount.Of(capacity) > limit {
			return &invalid.Error{Field: q.field("max"), Value: q.Max.Compact(),
				Msg: fmt.Sprintf("is below the queue's %s, %s", word, amount.on(capacity)), Remedy: "raise it, or lower the " + word}
		}
		if !amount.None() {
			floors = append(floors, Floor{q.Name, amount.Of(capacity)})
			parts = append(parts, fmt.Sprintf("%s of %s %s", word, q.Name, amount.on(capacity)))
		}
	}
	sum := Sum(floors)
	for _, bound := range []struct {
		rate Rate
		of   string
		ways string
	}{
		{c.Min, "the workload's min, " + p.Min.on(capacity), "raise the workload's min or do without it"},
		{c.Max, "the workload's max, " + p.Max.on(capacity), "raise the workload's max"},
		{capacity, "the link's capacity, " + capacity.String(), ""},
	} {
		if bound.rate == 0 || sum <= bound.rate {
			continue
		}
		remedy := "lower them by " + (sum - bound.rate).Compact()
		if bound.ways != "" {
			remedy += ", or " + bound.ways
		}
		return &invalid.Error{Field: "queues", Value: sum.Compact(),
			Msg:    fmt.Sprintf("%s come to %s, above %s", strings.Join(parts, ", "), sum, bound.of),
			Remedy: remedy}
	}
	return nil
}

// checkRules refuses rules of which one is never reached. A packet that no rule fits
// goes to the queue without a match, so one such queue is the most; no rule may stand
// behind another that leaves it no packet, and every match must be able to fit.
func (p Policy) checkRules() error {
	rest := ""
	for _, q := range p.Queues {
		if len(q.Match) > 0 {
			continue
		}
		if rest != "" {
			return &invalid.Error{Field: q.field("match"), Msg: fmt.Sprintf("no packet would come here: %s has no match either and takes what fits nowhere", rest),
				Remedy: "say what belongs into one of them"}
		}
		rest = q.Name
	}
	_, err := CheckRules(p.Queues)
	return err
}
