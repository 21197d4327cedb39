// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"maps"
	"slices"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// Arrival is a container that another node migrates to this one: what was granted,
// what has been done, and what became of it. It is all that this node believes; a call
// only says which step or part is meant. The description, which may be long, is a file
// of its own, see package incoming.
type Arrival struct {
	Grant     wire.Grant              `json:"grant"`
	Begun     time.Time               `json:"begun"`
	Heard     time.Time               `json:"heard"`
	Taken     map[move.Step]time.Time `json:"taken,omitempty"`     // steps that have succeeded
	Received  map[string]string       `json:"received,omitempty"`  // parts that are whole, with their SHA-256
	Committed *migrate.Committed      `json:"committed,omitempty"` // the image that was pulled for it
	Tried     bool                    `json:"tried,omitempty"`     // a restore was: nothing is received any more
	End       move.ContainerState     `json:"end,omitempty"`       // confirmed or discarded
	Copy      string                  `json:"copy,omitempty"`      // id of the container that it has become
	Applied   bool                    `json:"applied,omitempty"`   // confirmed: its settings were dealt with
	Swept     bool                    `json:"swept,omitempty"`     // discarded: and once more, some time later
}

// Clone copies what a change of the copy must not change in the record.
func (v Arrival) Clone() Arrival {
	v.Taken, v.Received = maps.Clone(v.Taken), maps.Clone(v.Received)
	return v
}

// Settled reports whether nothing will be done about a guest any more.
func (v *Arrival) Settled() bool {
	return v.End == move.Confirmed && v.Applied || v.End == move.Discarded && v.Swept
}

// Shorten drops the fields that are not needed any more: once a guest is settled, the
// move, its source and the digest answer every call, and records are kept for days.
func (v *Arrival) Shorten() {
	if v.Settled() {
		v.Taken, v.Received, v.Committed, v.Grant.Parts, v.Grant.Change = nil, nil, nil, nil, nil
	}
}

// GrantedBy reports whether a call shows the grant by which a guest was begun. The digest
// is of the description, which all else of a manifest was compared with.
func (v *Arrival) GrantedBy(g wire.Grant) bool {
	return v.Grant.From == g.From && v.Grant.Node == g.Node && v.Grant.ContainerID == g.ContainerID && v.Grant.Digest == g.Digest
}

// Took notes a step that has succeeded at a time.
func (v *Arrival) Took(at time.Time, step move.Step, out migrate.StepOutcome, committed *migrate.Committed, stated wire.Statement) {
	if v.Taken == nil {
		v.Taken = map[move.Step]time.Time{}
	}
	v.Taken[step] = at.UTC()
	switch step {
	case move.Pull:
		v.Committed = committed
		v.Arrived(migrate.PartCommit, stated.SHA256)
	case move.Confirm:
		v.Copy = out.Copy
	}
	v.End = step.Leads()
}

// Arrived notes a part that is whole, with its SHA-256.
func (v *Arrival) Arrived(part, hash string) {
	if v.Received == nil {
		v.Received = map[string]string{}
	}
	v.Received[part] = hash
}

// May says whether a step, or a part by move.Receive, may be taken now by a grant.
func (v *Arrival) May(step move.Step, part string, g wire.Grant) error {
	c := move.Question{By: move.Target, Step: step, Part: part, Move: g.Move, Container: g.Container, State: v.End}
	taken := func(step move.Step) bool { return !v.Taken[step].IsZero() }
	byCommit := v.Grant.Approach == string(migrate.ApproachCommit)
	for _, needed := range v.Grant.Parts {
		ahead := needed == string(migrate.PartImage) || needed == string(migrate.PartMemory) || needed == migrate.PartCommit && !byCommit
		if !ahead && v.Received[needed] == "" && c.Lacks == "" {
			c.Lacks = needed
		}
	}
	c.Note(!v.GrantedBy(g), move.Other)
	c.Note(step == move.Receive && (!slices.Contains(v.Grant.Parts, part) || part == migrate.PartCommit), move.Ungranted)
	c.Note(taken(step) || v.Received[part] != "", move.Done)
	c.Note(taken(move.Create), move.Created)
	c.Note(taken(move.Restore), move.Restored)
	c.Note(v.Tried, move.Tried)
	c.Note(byCommit, move.ByCommit)
	c.Note(v.Committed != nil, move.Pulled)
	c.Note(c.Lacks != "", move.Missing)
	_, err := c.Take()
	return err
}
