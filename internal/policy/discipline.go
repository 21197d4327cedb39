// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/invalid"
	"weir/internal/policy/classify"
)

// Discipline says which of a workload's own packets goes first.
type Discipline string

// The disciplines. Their names are those of the field; a workload that asks for
// none has sfq.
const (
	SFQ   Discipline = "sfq"   // each flow its own queue, round robin, CoDel; sparse flows first
	FIFO  Discipline = "fifo"  // in order of arrival
	PQ    Discipline = "pq"    // strict priority, the first queue highest
	CBWFQ Discipline = "cbwfq" // queues by their mins, what one leaves goes to the others in proportion
	LLQ   Discipline = "llq"   // a strict first queue, policed to its rate, over cbwfq
)

// disciplines lists all disciplines, the default first. The kernel side's table is in
// bpf/weir.h.
var disciplines = []struct {
	Discipline
	queues bool // has queues that rules fill
	weighs bool // divides a workload's rate among them by their mins
}{
	{SFQ, false, false},
	{FIFO, false, false},
	{PQ, true, false},
	{CBWFQ, true, true},
	{LLQ, true, true},
}

// Disciplines returns the names of all disciplines, the default first.
func Disciplines() []string {
	names := make([]string, len(disciplines))
	for i, d := range disciplines {
		names[i] = string(d.Discipline)
	}
	return names
}

// ParseDiscipline reads a discipline's name. The error is an *invalid.Error for the
// field "discipline".
func ParseDiscipline(s string) (Discipline, error) {
	text := strings.TrimSpace(s)
	d := Discipline(strings.ToLower(text))
	return d, d.check(text)
}

func (d Discipline) check(text string) error {
	if slices.Contains(Disciplines(), string(d)) {
		return nil
	}
	return &invalid.Error{Field: "discipline", Value: text, Msg: "no such discipline", Remedy: "write " + listed(Disciplines(), "or")}
}

// OrDefault returns d, or the default discipline if d is "".
func (d Discipline) OrDefault() Discipline {
	if d == "" {
		return SFQ
	}
	return d
}

// HasQueues reports whether the discipline orders queues that rules fill; fifo has
// one queue, and sfq tells flows apart by itself.
func (d Discipline) HasQueues() bool {
	for _, row := range disciplines {
		if row.Discipline == d {
			return row.queues
		}
	}
	return false
}

// Weighs reports whether the discipline divides a workload's rate among its queues
// by their mins.
func (d Discipline) Weighs() bool {
	for _, row := range disciplines {
		if row.Discipline == d {
			return row.weighs
		}
	}
	return false
}

// listed returns words as a list in a sentence: "a, b or c".
func listed(words []string, last string) string {
	n := len(words)
	if n < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
}

// Isolation says what sfq takes for one flow: the values are CAKE's flow modes.
type Isolation string

// The isolations. With all but the first a host is one flow, however many connections it has.
const (
	ByFlow        Isolation = ""        // addresses, protocol and ports
	BySource      Isolation = "srchost" // the source's address
	ByDestination Isolation = "dsthost" // the destination's address
	ByHosts       Isolation = "hosts"   // both addresses
)

// flowsWord stands for ByFlow, the default.
const flowsWord = "flows"

// Isolations returns the names of all isolations, the default first.
func Isolations() []string {
	return []string{flowsWord, string(BySource), string(ByDestination), string(ByHosts)}
}

// ParseIsolation reads an isolation's name. The error is an *invalid.Error without a field.
func ParseIsolation(s string) (Isolation, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if !slices.Contains(Isolations(), text) {
		return "", &invalid.Error{Value: strings.TrimSpace(s), Msg: "no such isolation", Remedy: "write " + listed(Isolations(), "or")}
	}
	if text == flowsWord {
		return ByFlow, nil
	}
	return Isolation(text), nil
}

func writeIsolation(i Isolation) string {
	if i == ByFlow {
		return flowsWord
	}
	return string(i)
}

// checkIsolation refuses an isolation where nothing tells flows apart.
func (p Policy) checkIsolation(d Discipline) error {
	if _, err := ParseIsolation(writeIsolation(p.Isolation)); err != nil {
		return invalid.InField("isolation", err)
	}
	if p.Isolation != ByFlow && d != SFQ {
		return &invalid.Error{Field: "isolation", Value: string(p.Isolation), Msg: fmt.Sprintf("discipline %s does not tell flows apart", d),
			Remedy: "write discipline sfq, or isolation flows"}
	}
	return nil
}

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

// AQM is active queue management by CoDel (RFC 8289) on each queue. The zero
// value is the discipline's default: on for sfq, with 5 ms and 100 ms, off for
// the others.
type AQM struct {
	Off      bool
	Target   time.Duration // delay that may stand; 0 = 5 ms
	Interval time.Duration // over which it may not be exceeded; 0 = 100 ms
	// ECN says that packets that can be marked are marked in place of a drop.
	ECN bool
	// CEThreshold is the delay above which each packet that can be marked is; 0 = none.
	CEThreshold time.Duration
}

// CoDel's constants (RFC 8289, section 4.2 and 4.3), and the bounds of what may
// be asked for instead. The smallest is near what timers and segmentation offload
// allow; after the longest interval a user has long given up.
const (
	DefaultTarget   = 5 * time.Millisecond
	DefaultInterval = 100 * time.Millisecond
	minTarget       = 10 * time.Microsecond
	maxInterval     = 10 * time.Second
)

const aqmRemedy = "write TARGET/INTERVAL such as 5ms/100ms or 5ms/100ms ecn, or on, off or default"

// The words behind the times: on and ecn together are "5ms/100ms ecn".
const (
	ecnWord       = "ecn"
	thresholdWord = "ce_threshold"
)

// ParseAQM reads "5ms/100ms" (target and interval), "5ms" (the target), "on", each with
// "ecn" or "ecn ce_threshold 1ms" behind it,
// "off", or "default" or nothing for the discipline's default. The error is an
// *invalid.Error without a field; see invalid.InField.
func ParseAQM(s string) (AQM, error) {
	words := strings.Fields(s)
	at := slices.IndexFunc(words, func(w string) bool {
		w = strings.ToLower(w)
		return w == ecnWord || w == thresholdWord
	})
	if at < 0 {
		return parseCoDel(s)
	}
	codel := strings.Join(words[:at], " ")
	if codel == "" {
		codel = "on"
	}
	a, err := parseCoDel(codel)
	if err != nil {
		return AQM{}, err
	}
	text := strings.Join(words, " ")
	if a.Off || a == (AQM{}) {
		return AQM{}, &invalid.Error{Value: text, Msg: "marks without an AQM that decides on them", Remedy: "write on ecn, or times such as 5ms/100ms ecn"}
	}
	return a.withECN(text, words[at:])
}

// withECN returns a with what the words say of marks.
func (a AQM) withECN(text string, words []string) (AQM, error) {
	refuse := func(msg string) (AQM, error) {
		return AQM{}, &invalid.Error{Value: text, Msg: msg, Remedy: "write 5ms/100ms ecn, or 5ms/100ms ecn ce_threshold 1ms"}
	}
	if strings.EqualFold(words[0], ecnWord) {
		words = words[1:]
	}
	a.ECN = true
	switch {
	case len(words) == 0:
		return a, a.check(text)
	case len(words) != 2 || !strings.EqualFold(words[0], thresholdWord):
		return refuse("not an AQM with marks")
	}
	var err error
	if a.CEThreshold, err = time.ParseDuration(words[1]); err != nil {
		return refuse("not a delay above which packets are marked")
	}
	if a.CEThreshold == 0 {
		return refuse("a ce_threshold of 0 would mark everything")
	}
	return a, a.check(text)
}

func parseCoDel(s string) (AQM, error) {
	text := strings.TrimSpace(s)
	switch strings.ToLower(text) {
	case "", "default":
		return AQM{}, nil
	case "off", "none", "false", "no":
		return AQM{Off: true}, nil
	case "on", "true", "yes":
		return AQM{Target: DefaultTarget, Interval: DefaultInterval}, nil
	}
	target, interval, both := strings.Cut(text, "/")
	a := AQM{Interval: DefaultInterval}
	var err error
	if a.Target, err = time.ParseDuration(strings.TrimSpace(target)); err != nil {
		return AQM{}, &invalid.Error{Value: text, Msg: "not a target", Remedy: aqmRemedy}
	}
	if both {
		if a.Interval, err = time.ParseDuration(strings.TrimSpace(interval)); err != nil {
			return AQM{}, &invalid.Error{Value: text, Msg: "not a target and an interval", Remedy: aqmRemedy}
		}
	}
	if a.Target == 0 || a.Interval == 0 {
		return AQM{}, &invalid.Error{Value: text, Msg: "a time of 0 would drop everything", Remedy: "write off if there is to be no AQM"}
	}
	return a, a.check(text)
}

// Check reports as an *invalid.Error, without a field, what no queue can be told.
func (a AQM) Check() error { return a.check(a.Compact()) }

func (a AQM) check(text string) error {
	if a == (AQM{}) || a == (AQM{Off: true}) {
		return nil
	}
	target, interval := a.times()
	refuse := func(msg, remedy string) error { return &invalid.Error{Value: text, Msg: msg, Remedy: remedy} }
	switch {
	case a.Off:
		return refuse("both off and with times", "write one of them")
	case target < minTarget:
		return refuse(fmt.Sprintf("a target below %s is less than timers and offloaded packets allow", minTarget), aqmRemedy)
	case interval > maxInterval:
		return refuse(fmt.Sprintf("an interval above %s", maxInterval), aqmRemedy)
	case target >= interval:
		return refuse(fmt.Sprintf("the target, %s, is not below the interval, %s", target, interval),
			"make the interval about a round trip, and the target 5 to 10 % of it")
	case a.CEThreshold != 0 && !a.ECN:
		return refuse("a ce_threshold without ecn", "write both, or none")
	case a.CEThreshold != 0 && a.CEThreshold < minTarget:
		return refuse(fmt.Sprintf("a ce_threshold below %s is less than timers and offloaded packets allow", minTarget), "write 1ms, or leave it out")
	case a.CEThreshold > maxInterval:
		return refuse(fmt.Sprintf("a ce_threshold above %s", maxInterval), "write 1ms, or leave it out")
	}
	return nil
}

// times returns target and interval, with the defaults put in.
func (a AQM) times() (target, interval time.Duration) {
	target, interval = a.Target, a.Interval
	if target == 0 {
		target = DefaultTarget
	}
	if interval == 0 {
		interval = DefaultInterval
	}
	return target, interval
}

// Of returns the target and the interval that a gives a discipline, both 0 for none.
func (a AQM) Of(d Discipline) (target, interval time.Duration) {
	if a.Off || a == (AQM{}) && d.OrDefault() != SFQ {
		return 0, 0
	}
	return a.times()
}

// Compact returns a as a person would have written it: "5ms/100ms", "off", and "" for
// the default. ParseAQM(a.Compact()) means the same as a, if a is valid.
func (a AQM) Compact() string {
	switch {
	case a == (AQM{}):
		return ""
	case a.Off:
		return "off"
	}
	target, interval := a.times()
	text := target.String() + "/" + interval.String()
	if a.ECN {
		text += " " + ecnWord
	}
	if a.CEThreshold != 0 {
		text += " " + thresholdWord + " " + a.CEThreshold.String()
	}
	return text
}
