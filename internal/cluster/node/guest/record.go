// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"maps"
	"slices"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/warrant"
	"weir/internal/core/wire"
)

// Record is a container that another node migrates to this one: what was granted,
// what has been done, and what became of it. It is all that this node believes; a call
// only says which step or part is meant. The description, which may be long, is a file
// of its own, see package incoming.
type Record struct {
	Grant     wire.Grant                 `json:"grant"`
	Begun     time.Time                  `json:"begun"`
	Heard     time.Time                  `json:"heard"`
	Taken     map[migrate.Step]time.Time `json:"taken,omitempty"`     // steps that have succeeded
	Received  map[string]string          `json:"received,omitempty"`  // parts that are whole, with their SHA-256
	Committed *migrate.Committed         `json:"committed,omitempty"` // the image that was pulled for it
	Tried     bool                       `json:"tried,omitempty"`     // a restore was: nothing is received any more
	End       End                        `json:"end,omitempty"`
	Copy      string                     `json:"copy,omitempty"`    // id of the container that it has become
	Applied   bool                       `json:"applied,omitempty"` // confirmed: its settings were dealt with
	Swept     bool                       `json:"swept,omitempty"`   // discarded: and once more, some time later
}

// End says how a copy ended.
type End string

// The ends; a copy under way has none.
const (
	Confirmed End = "confirmed" // it is the container by now
	Discarded End = "discarded"
)

// Clone copies what a change of the copy must not change in the record.
func (v Record) Clone() Record {
	v.Taken, v.Received = maps.Clone(v.Taken), maps.Clone(v.Received)
	return v
}

// Settled reports whether nothing will be done about a guest any more.
func (v *Record) Settled() bool {
	return v.End == Confirmed && v.Applied || v.End == Discarded && v.Swept
}

// Shorten drops the fields that are not needed any more: once a guest is settled, the
// move, its source and the digest answer every call, and records are kept for days.
func (v *Record) Shorten() {
	if v.Settled() {
		v.Taken, v.Received, v.Committed, v.Grant.Parts, v.Grant.Change = nil, nil, nil, nil, nil
	}
}

// GrantedBy reports whether a call shows the grant by which a guest was begun. The digest
// is of the description, which all else of a manifest was compared with.
func (v *Record) GrantedBy(g wire.Grant) bool {
	return v.Grant.From == g.From && v.Grant.Node == g.Node && v.Grant.ContainerID == g.ContainerID && v.Grant.Digest == g.Digest
}

// Took notes a step that has succeeded at a time.
func (v *Record) Took(at time.Time, step migrate.Step, out migrate.Outcome, committed *migrate.Committed, stated wire.Statement) {
	if v.Taken == nil {
		v.Taken = map[migrate.Step]time.Time{}
	}
	v.Taken[step] = at.UTC()
	switch step {
	case migrate.StepPull:
		v.Committed = committed
		v.Arrived(migrate.PartCommit, stated.SHA256)
	case migrate.StepConfirm:
		v.End, v.Copy = Confirmed, out.Copy
	case migrate.StepDiscard:
		v.End = Discarded
	}
}

// Arrived notes a part that is whole, with its SHA-256.
func (v *Record) Arrived(part, hash string) {
	if v.Received == nil {
		v.Received = map[string]string{}
	}
	v.Received[part] = hash
}

// ended says how a call is answered after a guest's end; nil before.
func (v *Record) ended(step migrate.Step) error {
	switch {
	case v.End == "":
		return nil
	case v.End == Confirmed && step == migrate.StepConfirm:
		return warrant.Deny(warrant.WhyReplayed, migrate.CodeDone, "the copy of %s was confirmed already", v.Grant.Container)
	case v.End == Confirmed && step == migrate.StepDiscard:
		return warrant.Deny(warrant.WhyReplayed, migrate.CodeRefused, "the copy of %s is the container by now", v.Grant.Container)
	}
	return warrant.Deny(warrant.WhyReplayed, migrate.CodeGone, "the copy of %s was %s", v.Grant.Container, v.End)
}

// MayTake says whether a step may be taken now.
func (v *Record) MayTake(step migrate.Step, o migrate.Order) error {
	if err := v.ended(step); err != nil {
		return err
	}
	_, again := v.Taken[step]
	_, created := v.Taken[migrate.StepCreate]
	_, restored := v.Taken[migrate.StepRestore]
	missing := slices.DeleteFunc(o.Needed(), func(part string) bool { return v.Received[part] != "" })
	switch {
	case step == migrate.StepDiscard:
		return nil
	case again:
		return warrant.Deny(warrant.WhyReplayed, migrate.CodeDone, "%s of %s was done already", step, v.Grant.Container)
	case step == migrate.StepConfirm && !restored:
		return warrant.Deny(warrant.WhyNotStep, migrate.CodeGone, "the copy of %s was not restored", v.Grant.Container)
	case step == migrate.StepConfirm:
		return nil
	case v.Tried:
		return warrant.Deny(warrant.WhyNotStep, migrate.CodeDenied, "%s of %s comes after its restore", step, v.Grant.Container)
	case step == migrate.StepPullImage && created:
		return warrant.Deny(warrant.WhyNotStep, migrate.CodeDenied, "the copy of %s was created already", v.Grant.Container)
	case step == migrate.StepPull && o.Approach != migrate.ApproachCommit:
		return warrant.Deny(warrant.WhyNotStep, migrate.CodeDenied, "approach %s has no step %s", o.Approach, step)
	case step == migrate.StepCreate && o.Approach == migrate.ApproachCommit && v.Committed == nil:
		return warrant.Deny(warrant.WhyNotStep, migrate.CodeDenied, "the committed image of %s was not pulled", v.Grant.Container)
	case step == migrate.StepRestore && len(missing) > 0:
		return warrant.Deny(warrant.WhyNotStep, migrate.CodeDenied, "%s of %s has not arrived", missing[0], v.Grant.Container)
	}
	return nil
}

// MayReceive says whether a part may come now.
func (v *Record) MayReceive(part string) error {
	if err := v.ended(""); err != nil {
		return err
	}
	switch {
	case !slices.Contains(v.Grant.Parts, part) || part == migrate.PartCommit:
		return warrant.Deny(warrant.WhyAltered, migrate.CodeDenied, "the grant has no part %.80q", part)
	case v.Received[part] != "":
		return warrant.Deny(warrant.WhyReplayed, migrate.CodeDone, "%s has arrived already", part)
	case v.Tried:
		return warrant.Deny(warrant.WhyNotStep, migrate.CodeDenied, "%s comes after the restore", part)
	}
	return nil
}
