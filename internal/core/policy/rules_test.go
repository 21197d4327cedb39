// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"

	"weir/internal/core/policy/classify"
)

func queuesOf(t interface{ Fatal(...any) }, texts ...string) []Queue {
	queues := make([]Queue, len(texts))
	for i, text := range texts {
		name, matches, _ := strings.Cut(text, " ")
		queues[i].Name = name
		if matches == "" {
			continue
		}
		var err error
		if queues[i].Match, err = classify.ParseMatches(matches); err != nil {
			t.Fatal(err)
		}
	}
	return queues
}

func TestCheckRules(t *testing.T) {
	for _, tt := range []struct {
		name   string
		queues []string
		want   string // the error, or the warnings
	}{
		{"apart", []string{"a {udp: 1}", "b {udp: 2}", "c"}, ""},
		{"an exception before its rule", []string{"a {udp: 5005}", "b {udp: 5000-5010}"}, ""},
		{"different things", []string{"a {udp: 5001}", "b {dscp: ef}"}, ""},
		{"shadowed", []string{"a {udp: 5000-5010}", "b {udp: 5005}", "c"},
			`error queues.b "{udp: 5005}": can never fit, {udp: 5000-5010} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"shadowed in detail", []string{"a {src: 10.0.0.0/8}", "b {src: 10.1.0.0/16, dport: 53}"},
			`error queues.b "{dport: 53, src: 10.1.0.0/16}": can never fit, {src: 10.0.0.0/8} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"either end covers one end", []string{"a {udp: 53}", "b {proto: udp, dport: 53}"},
			`error queues.b "{proto: udp, dport: 53}": can never fit, {udp: 53} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"one end does not cover either", []string{"a {proto: udp, dport: 53}", "b {udp: 53}"}, ""},
		{"ranges that overlap", []string{"a {udp: 5000-5010}", "b {udp: 5005-5020}"},
			`queues.b "{udp: 5005-5020}": {udp: 5000-5010} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`},
		{"one port of a list", []string{"a {udp: 5001}", "b {udp: [5001, 5002]}"},
			`queues.b "{udp: [5001, 5002]}": {udp: 5001} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`},
		{"a preset's part", []string{"a {preset: voip}", "b {dscp: ef}"},
			`error queues.b "{dscp: ef}": can never fit, {preset: voip} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"twice in one queue", []string{"a [{udp: 1}, {udp: 1}]"}, ""},
		{"marks", []string{"a {mark: 0x50/0xf0}", "b {mark: 0x51/0xff}"},
			`error queues.b "{mark: 0x51/0xff}": can never fit, {mark: 0x50/0xf0} in queue a takes its packets before; put queue b before queue a, or remove the match`},
		{"too many", []string{"a {sport: [1,2,3,4,5,6,7,8], dport: [1,2,3,4,5,6,7,8]}", "b {udp: 1}"},
			`error queues "65": more rules than the 64 that a workload can have; each port or range and each match of a preset counts as one; join ports to ranges, or mark the traffic by dscp where it is sent`},
	} {
		warnings, err := CheckRules(queuesOf(t, tt.queues...))
		var lines []string
		for _, w := range warnings {
			lines = append(lines, w.Error())
		}
		got := strings.Join(lines, "\n")
		if err != nil {
			got = "error " + err.Error()
		}
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}
