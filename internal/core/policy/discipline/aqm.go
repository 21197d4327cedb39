// SPDX-License-Identifier: Apache-2.0

package discipline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/core/invalid"
)

// AQM is active queue management by CoDel (RFC 8289) on each queue. The zero
// value is the discipline's default: off for fifo, on for the others, with 5 ms and 100 ms.
type AQM struct {
	Off      bool
	Target   time.Duration // delay that may stand; 0 = 5 ms
	Interval time.Duration // over which it may not be exceeded; 0 = 100 ms
	// ECN says that packets that can be marked are marked in place of a drop.
	ECN bool
	// CEThreshold is the delay above which each packet that can be marked is; 0 = none.
	CEThreshold time.Duration
	// ACKFilter says that a TCP ACK that waits gives way to a newer one of its connection.
	ACKFilter bool
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
	filterWord    = "ack-filter"
)

// ParseAQM reads "5ms/100ms" (target and interval), "5ms" (the target), "on", each with "ecn" or
// "ecn ce_threshold 1ms" and with "ack-filter" behind it, "off", or "default" or nothing for the
// discipline's default. The error is an *invalid.Error without a field; see invalid.InField.
func ParseAQM(s string) (AQM, error) {
	words := strings.Fields(s)
	last := len(words) - 1
	if last < 0 || !strings.EqualFold(words[last], filterWord) {
		return parseMarks(words)
	}
	if last == 0 {
		words[0], last = "on", 1
	}
	a, err := parseMarks(words[:last])
	if err != nil {
		return AQM{}, err
	}
	if a.Off || a == (AQM{}) {
		return AQM{}, &invalid.Error{Value: strings.Join(words, " "), Msg: "a filter without an AQM", Remedy: "write on ack-filter, or times such as 5ms/100ms ack-filter"}
	}
	a.ACKFilter = true
	return a, nil
}

// parseMarks reads the words before ack-filter.
func parseMarks(words []string) (AQM, error) {
	at := slices.IndexFunc(words, func(w string) bool {
		w = strings.ToLower(w)
		return w == ecnWord || w == thresholdWord
	})
	if at < 0 {
		return parseCoDel(strings.Join(words, " "))
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
func (a AQM) Of(d Name) (target, interval time.Duration) {
	if a.Off || a == (AQM{}) && d.OrDefault() == FIFO {
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
	if a.ACKFilter {
		text += " " + filterWord
	}
	return text
}
