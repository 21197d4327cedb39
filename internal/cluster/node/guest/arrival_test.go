// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// arriving returns a record of a copy with these parts to come, and its order.
func arriving(approach migrate.Approach) (Arrival, migrate.MoveSpec) {
	o := migrate.MoveSpec{Move: "m-1", From: "a", To: "b", Approach: approach,
		Container: migrate.Container{ID: "id-web", Name: "web", Volumes: []migrate.Volume{{Name: "data"}}}}
	parts := append(o.Needed(), migrate.PartCommit)
	return Arrival{Grant: wire.Grant{Manifest: wire.Manifest{Move: "m-1", Container: "web", Approach: string(approach), Parts: parts}, From: "a", To: "b"}, Begun: begun, Heard: begun}, o
}

// reason returns the reason of a refusal, "" for none.
func reason(err error) string {
	var no *move.Denied
	if errors.As(err, &no) {
		return no.Reason
	}
	return ""
}

// TestOrderOfSteps: each step is taken once and in its order, each part comes once and
// before the restore, and nothing comes after the end.
func TestOrderOfSteps(t *testing.T) {
	r, o := arriving(migrate.ApproachLayer)
	step := func(s move.Step, want string) {
		t.Helper()
		if got := reason(r.May(s, "", r.Grant)); got != want {
			t.Errorf("%s: refused as %q, want %q", s, got, want)
		}
	}
	part := func(p, want string) {
		t.Helper()
		if got := reason(r.May(move.Receive, p, r.Grant)); got != want {
			t.Errorf("part %s: refused as %q, want %q", p, got, want)
		}
	}
	took := func(s move.Step) {
		r.Took(begun.Add(time.Minute), s, migrate.StepOutcome{Copy: "id-copy"}, nil, wire.Statement{})
	}
	step(move.Pull, move.WhyNotStep) // only approach commit has it
	step(move.Confirm, move.WhyNotStep)
	step(move.Restore, move.WhyNotStep) // its parts are missing
	step(move.Create, "")
	took(move.Create)
	step(move.Create, move.WhyReplayed)
	step(move.PullImage, move.WhyNotStep)
	part("volume other", move.WhyAltered)
	part("", move.WhyAltered)
	part(migrate.PartCommit, move.WhyAltered)
	for _, p := range o.Needed() {
		part(p, "")
		r.Arrived(p, "hash")
		part(p, move.WhyReplayed)
	}
	step(move.Restore, "")
	r.Tried = true
	took(move.Restore)
	step(move.Restore, move.WhyReplayed)
	step(move.Discard, "")
	step(move.Confirm, "")
	took(move.Confirm)
	if r.End != move.Confirmed || r.Copy != "id-copy" || r.Settled() {
		t.Errorf("after the confirmation: %+v", r)
	}
	step(move.Discard, move.WhyReplayed)
	part(o.Needed()[0], move.WhyReplayed)
	r.Applied = true
	if r.Shorten(); !r.Settled() || r.Taken != nil || r.Received != nil || r.Grant.Parts != nil {
		t.Errorf("settled: %+v", r)
	}
}

// TestCloneIsAnother: a change of a copy does not change the record.
func TestCloneIsAnother(t *testing.T) {
	r, _ := arriving(migrate.ApproachLayer)
	r.Arrived("layer", "hash")
	next := r.Clone()
	next.Arrived("checkpoint", "hash")
	next.Took(begun, move.Create, migrate.StepOutcome{}, nil, wire.Statement{})
	if len(r.Received) != 1 || len(r.Taken) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestDescriptions: what Describable lets through at a source is Readable at its target.
func TestDescriptions(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		ok   bool
	}{
		"short":             {`{"order":{}}`, true},
		"as long as may be": {strings.Repeat("x", MaxDescription), true},
		"too long":          {strings.Repeat("x", MaxDescription+1), false},
		"many objects":      {strings.Repeat("{", MaxObjects), true},
		"too many objects":  {strings.Repeat("{", MaxObjects+1), false},
	} {
		source, target := Describable("web", []byte(tt.text)), Readable([]byte(tt.text))
		if (source == nil) != tt.ok || (target == nil) != tt.ok {
			t.Errorf("%s: %v at its source, %v at its target", name, source, target)
		}
	}
	_, o := arriving(migrate.ApproachLayer)
	o.Container.Volumes = make([]migrate.Volume, mostVolumes+1)
	if err := CheckLists(o); err == nil {
		t.Errorf("%d volumes are taken", mostVolumes+1)
	}
}
