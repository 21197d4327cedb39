// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
	"time"
)

// TestHealth: each input that is missing is named; a turn that never ends is told.
func TestHealth(t *testing.T) {
	now := time.Now()
	n := New(Options{})
	say := func(err error) string { return fmt.Sprint(err) }
	for _, tt := range []struct {
		listed, known, agent bool
		want                 string
	}{
		{want: "the container runtime has not said which pods there are; it needs NRI, see --nri-socket"},
		{listed: true, want: "the API server has not answered; look at its address and at the rights to list pods and namespaces"},
		{listed: true, known: true, want: "the agent does not answer; see --socket"},
		{listed: true, known: true, agent: true, want: "<nil>"},
	} {
		if n.listed, n.known, n.have = tt.listed, tt.known, nil; tt.agent {
			n.have = &have{}
		}
		n.note(now)
		if got := say(n.Ready()); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	if err := n.liveAt(now.Add(stuckAfter)); err != nil {
		t.Error(err)
	}
	if got, want := say(n.liveAt(now.Add(3*time.Minute))), "no comparison has ended for 3m0s"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if early := New(Options{}); early.Ready() == nil || early.Live() != nil {
		t.Errorf("before the first turn: ready %v, live %v", early.Ready(), early.Live())
	}
}
