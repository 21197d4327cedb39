// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/core/invalid/invalidtest"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// queue reads "voice rate=1mbit min=25% dscp=99 limit=2000000 priority=1 {udp: 5001}".
func queue(t *testing.T, text string) Queue {
	t.Helper()
	text, matches, ruled := strings.Cut(text, " {")
	words := strings.Fields(text)
	q := Queue{}
	if len(words) > 0 {
		q.Name = words[0]
	}
	amount := func(text string) Amount {
		if text == "0.5bit" { // what no parser lets through
			return Amount{Rate: 1}
		}
		a, err := ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, word := range words[min(1, len(words)):] {
		name, value, _ := strings.Cut(word, "=")
		switch name {
		case "rate":
			q.Rate = amount(value)
		case "min":
			q.Min = amount(value)
		case "dscp":
			var n uint8
			fmt.Sscan(value, &n)
			q.DSCP = &n
		case "limit":
			fmt.Sscan(value, &q.LimitPackets)
		case "priority":
			fmt.Sscan(value, &q.Priority)
		}
	}
	if ruled {
		matches, err := classify.ParseMatches("{" + matches)
		if err != nil {
			t.Fatal(err)
		}
		q.Match = matches
	}
	return q
}

// Every mistake in a discipline and its queues, and the error for it.
func TestCheckQueues(t *testing.T) {
	nine := strings.Split("a {udp: 1}|b {udp: 2}|c {udp: 3}|d {udp: 4}|e {udp: 5}|f {udp: 6}|g {udp: 7}|h {udp: 8}|i", "|")
	dscp := uint8(64)
	var b strings.Builder
	for _, tt := range []struct {
		name   string
		policy Policy // Weight is 1
		queues []string
	}{
		{"none of all", Policy{}, nil},
		{"the issue's example", Policy{Discipline: discipline.LLQ}, []string{"voice rate=1mbit {udp: 5001}", "video min=3mbit {udp: 5002}", "rest min=1mbit"}},
		{"equal queues", Policy{Discipline: discipline.CBWFQ}, []string{"a {udp: 1}", "b"}},
		{"priorities", Policy{Discipline: discipline.PQ}, []string{"a dscp=46 limit=100 {udp: 1}", "b"}},
		{"equal priorities", Policy{Discipline: discipline.PQ}, []string{"a priority=1 {udp: 1}", "b priority=2 {udp: 2}", "c priority=2 {udp: 3}", "d priority=3"}},
		{"priorities out of order", Policy{Discipline: discipline.PQ}, []string{"a priority=2 {udp: 1}", "b priority=1"}},
		{"one priority of two", Policy{Discipline: discipline.PQ}, []string{"a priority=1 {udp: 1}", "b"}},
		{"priorities of cbwfq", Policy{Discipline: discipline.CBWFQ}, []string{"a priority=1 {udp: 1}", "b"}},
		{"as much as there is", Policy{Discipline: discipline.CBWFQ, Min: Amount{Rate: 10e6}, Max: Amount{Rate: 20e6}}, []string{"a min=4mbit {udp: 1}", "b min=6mbit"}},
		{"unknown discipline", Policy{Discipline: "wfq"}, nil},
		{"ack-filter of fifo", Policy{Discipline: discipline.FIFO, AQM: discipline.AQM{ACKFilter: true}}, nil},
		{"queues of fifo", Policy{Discipline: discipline.FIFO}, []string{"a", "b {udp: 1}"}},
		{"queues of the default", Policy{}, []string{"a"}},
		{"pq without queues", Policy{Discipline: discipline.PQ}, nil},
		{"nine queues", Policy{Discipline: discipline.PQ}, nine},
		{"no name", Policy{Discipline: discipline.PQ}, []string{""}},
		{"a name that is none", Policy{Discipline: discipline.PQ}, []string{"-voice"}},
		{"a name twice", Policy{Discipline: discipline.PQ}, []string{"a {udp: 1}", "a"}},
		{"llq without a rate", Policy{Discipline: discipline.LLQ}, []string{"voice {udp: 1}", "rest"}},
		{"llq's first with a min", Policy{Discipline: discipline.LLQ}, []string{"voice rate=1mbit min=1mbit {udp: 1}", "rest"}},
		{"llq's second with a rate", Policy{Discipline: discipline.LLQ}, []string{"voice rate=1mbit {udp: 1}", "rest rate=1mbit"}},
		{"cbwfq with a rate", Policy{Discipline: discipline.CBWFQ}, []string{"a rate=1mbit {udp: 1}", "b"}},
		{"pq with a min", Policy{Discipline: discipline.PQ}, []string{"a min=1mbit {udp: 1}", "b"}},
		{"one min of two", Policy{Discipline: discipline.CBWFQ}, []string{"a min=1mbit {udp: 1}", "b"}},
		{"two mins of four", Policy{Discipline: discipline.LLQ}, []string{"v rate=1mbit {udp: 9}", "a min=1mbit {udp: 1}", "b min=1mbit {udp: 2}", "c {udp: 3}", "d"}},
		{"a rate that is none", Policy{Discipline: discipline.LLQ}, []string{"a rate=0.5bit {udp: 1}", "b"}},
		{"a min that is none", Policy{Discipline: discipline.CBWFQ}, []string{"a min=0.5bit {udp: 1}", "b"}},
		{"a limit that is none", Policy{Discipline: discipline.PQ}, []string{"a limit=2000000"}},
		{"a queue's dscp", Policy{Discipline: discipline.PQ}, []string{"a dscp=99"}},
		{"the workload's dscp", Policy{DSCP: &dscp}, nil},
		{"aqm", Policy{AQM: discipline.AQM{Target: time.Second}}, nil},
		{"two queues for the rest", Policy{Discipline: discipline.PQ}, []string{"a {udp: 1}", "b", "c"}},
		{"a rule that never fits", Policy{Discipline: discipline.PQ}, []string{"a {udp: 1-10}", "b {udp: 5}", "c"}},
		{"above the min", Policy{Discipline: discipline.LLQ, Min: Amount{Rate: 4e6}}, []string{"voice rate=1mbit {udp: 1}", "video min=3mbit {udp: 2}", "rest min=1mbit"}},
		{"above the max", Policy{Discipline: discipline.CBWFQ, Max: Amount{Percent: 5}}, []string{"a min=4mbit {udp: 1}", "b min=3%"}},
		{"above the link", Policy{Discipline: discipline.CBWFQ}, []string{"a min=60mbit {udp: 1}", "b min=50%"}},
	} {
		tt.policy.Weight = 1
		for _, text := range tt.queues {
			tt.policy.Queues = append(tt.policy.Queues, queue(t, text))
		}
		_, err := tt.policy.Sharer(100 * mbit)
		said := invalidtest.Text(err)
		if said == "" {
			said = "fine"
		}
		fmt.Fprintf(&b, "%s: %s\n", tt.name, said)
	}
	// Of a match that was not read by ParseMatch.
	for _, m := range []classify.Match{{}, {Sport: []classify.PortRange{{First: 1, Last: 1}}, Proto: classify.Given[uint8](47)}} {
		p := Policy{Weight: 1, Discipline: discipline.PQ, Queues: []Queue{{Name: "a", Match: []classify.Match{m}}}}
		fmt.Fprintf(&b, "%s: %s\n", m, invalidtest.Text(p.Check()))
	}
	golden(t, "queues.txt", b.String())
}

func TestGroupNames(t *testing.T) {
	const remedy = "; use up to 128 letters, digits, dots, dashes and underscores, a letter or digit first"
	for name, want := range map[string]string{
		"tenant-b": "", "0": "", "a.b_c": "",
		"":     `group "": cannot be a group's name` + remedy,
		"a b":  `group "a b": cannot be a group's name` + remedy,
		"None": `group "None": stands for no group; choose another name`,
	} {
		if got := invalidtest.Text(CheckGroupName(name)); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
