// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/internal/core/plan"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// classWithInside is a class with much inside.
func classWithInside(t *testing.T, matches string) plan.Class {
	m, err := classify.ParseMatches(matches)
	must(t, err)
	return plan.Class{
		ID: 3, Name: strings.Repeat("long", 20), Weight: 1, Discipline: discipline.CBWFQ, DSCP: new(uint8(0)),
		Queues: []plan.Queue{
			{Name: "a-queue-with-a-name-of-32-letters", Weight: 3e6, Match: m, DSCP: new(uint8(46)), LimitPackets: 50},
			{Name: "rest", Weight: 1e6},
		},
	}
}

// What an agent left is what the next one finds: the qdisc's part and the text's.
func TestInsideIsKept(t *testing.T) {
	const matches = "[{preset: voip, dst: 10.0.0.0/8}, {tcp: [80, 8000-8099], src: '2001:db8::/32', mark: 0x50/0xf0}, {queue: 3, vlan: 7, dscp: af41}]"
	link := plan.Link{Capacity: 100e6, Reserve: 1}
	class := classWithInside(t, matches)
	found := planClass(class.ID, classConfig(class, link))
	fill(&found, insideOf(class))
	state := plain(plan.State{Link: link, Classes: []plan.Class{found}})
	if !state.Classes[0].Equal(class) {
		t.Errorf("found %+v\nwant  %+v", state.Classes[0], class)
	}

	before := planClass(class.ID, classConfig(class, link))
	for name, text := range map[string]string{
		"nothing":             "",
		"no JSON":             "{",
		"of other queues":     `{"queues":[{"name":"a"}]}`,
		"matches of tomorrow": `{"dscp":3,"queues":[{"name":"a"},{"name":"b","match":"[{quic: true}]"}]}`,
	} {
		found := planClass(class.ID, classConfig(class, link))
		if fill(&found, []byte(text)); !reflect.DeepEqual(found, before) {
			t.Errorf("%s: filled in as %+v", name, found)
		}
	}
}

func TestInsideHasRoom(t *testing.T) {
	if text := insideOf(plan.Class{Name: "web", Weight: 3, Min: 1e6, Discipline: discipline.SFQ}); text != nil {
		t.Errorf("kept of a class with nothing inside: %s", text)
	}
	var all []string
	for i := range classify.MaxRules {
		all = append(all, fmt.Sprintf("{proto: udp, sport: %d, src: '2001:db8:aaaa:bbbb:cccc:dddd:eeee:%x', dst: 2001:db8::/32}", 40000+i, i))
	}
	if text := insideOf(classWithInside(t, "["+strings.Join(all, ", ")+"]")); text == nil {
		t.Errorf("no room for %d long rules", len(all))
	}
}

// The qdisc is told which queue takes what no rule names. What Set writes is made of
// normal states, so these have to tell it too: else the packets go to the first queue,
// which may be the strict one, until Missing finds the class changed.
func TestNormalKeepsTheOtherQueue(t *testing.T) {
	link := plan.Link{Capacity: 100e6, Reserve: 1}
	class := classWithInside(t, "[{udp: 5004}]")
	want := classConfig(class, link)
	if want.OtherQueue != 1|turns {
		t.Fatalf("the other queue is %d, want 1 with turns", want.OtherQueue)
	}
	state := normal(plan.State{Link: link, Classes: []plan.Class{class}})
	if got := classConfig(state.Classes[0], link); got.OtherQueue != want.OtherQueue {
		t.Errorf("a normal state's other queue is %d, want %d", got.OtherQueue, want.OtherQueue)
	}
	open := class
	open.Queues = []plan.Queue{class.Queues[0], class.Queues[1]}
	open.Queues[1].Match, open.Queues[0].Match = open.Queues[0].Match, nil
	if changes := plan.Diff(state, normal(plan.State{Link: link, Classes: []plan.Class{open}})); len(changes) != 1 {
		t.Errorf("another queue takes the rest: changes %v, want one", changes)
	}
}
