// SPDX-License-Identifier: Apache-2.0

// Package discipline says which of a workload's own packets goes first: the names of the
// disciplines, what sfq takes for one flow (Isolation), and how long packets may wait before
// CoDel drops or marks some (AQM).
//
// It is pure: types, their checks, and the texts that people write for them. Example:
// "5ms/100ms ecn" is AQM{Target: 5ms, Interval: 100ms, ECN: true}. The queues that pq, cbwfq and
// llq order belong to package policy, as they have rates. bpf/disciplines is what the kernel does.
package discipline

import (
	"slices"
	"strings"

	"weir/internal/core/invalid"
)

// Name is a discipline's name, "" = the default.
type Name string

// The disciplines. Their names are those of the field; a workload that asks for
// none has sfq.
const (
	SFQ   Name = "sfq"   // each flow its own queue, round robin, CoDel; sparse flows first
	FIFO  Name = "fifo"  // in order of arrival
	PQ    Name = "pq"    // strict priority, the first queue highest
	CBWFQ Name = "cbwfq" // queues by their mins, what one leaves goes to the others in proportion
	LLQ   Name = "llq"   // a strict first queue, policed to its rate, over cbwfq
)

// disciplines lists all disciplines, the default first. The kernel side's table is in
// bpf/weir.h.
var disciplines = []struct {
	Name
	queues bool // has queues that rules fill
	weighs bool // divides a workload's rate among them by their mins
}{
	{SFQ, false, false},
	{FIFO, false, false},
	{PQ, true, false},
	{CBWFQ, true, true},
	{LLQ, true, true},
}

// Names returns the names of all disciplines, the default first.
func Names() []string {
	names := make([]string, len(disciplines))
	for i, d := range disciplines {
		names[i] = string(d.Name)
	}
	return names
}

// Parse reads a discipline's name. The error is an *invalid.Error for the
// field "discipline".
func Parse(s string) (Name, error) {
	text := strings.TrimSpace(s)
	d := Name(strings.ToLower(text))
	return d, check(d, text)
}

// Check reports as an *invalid.Error, for the field "discipline", a name that no discipline has.
func (d Name) Check() error { return check(d, string(d)) }

func check(d Name, text string) error {
	if slices.Contains(Names(), string(d)) {
		return nil
	}
	return &invalid.Error{Field: "discipline", Value: text, Msg: "no such discipline", Remedy: "write " + invalid.Listed(Names(), "or")}
}

// OrDefault returns d, or the default discipline if d is "".
func (d Name) OrDefault() Name {
	if d == "" {
		return SFQ
	}
	return d
}

// HasQueues reports whether the discipline orders queues that rules fill; fifo has
// one queue, and sfq tells flows apart by itself.
func (d Name) HasQueues() bool {
	for _, row := range disciplines {
		if row.Name == d {
			return row.queues
		}
	}
	return false
}

// Weighs reports whether the discipline divides a workload's rate among its queues
// by their mins.
func (d Name) Weighs() bool {
	for _, row := range disciplines {
		if row.Name == d {
			return row.weighs
		}
	}
	return false
}
