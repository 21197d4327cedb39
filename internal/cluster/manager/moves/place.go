// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"time"

	"weir/internal/core/wire"
)

// RefusedMin is a min that a node had to refuse.
type RefusedMin struct {
	wire.PlaceRequest
	Answer  wire.PlaceAnswer `json:"answer"`
	To      string           `json:"to"`    // where the min will be in force
	Moves   []string         `json:"moves"` // ids
	State   wire.PlaceState  `json:"state"`
	Error   string           `json:"error,omitempty"`
	Created time.Time        `json:"created"`
	Ended   time.Time        `json:"ended,omitzero"`
}

// Close ends a place, as done if why is "". What was asked for is not kept any more.
func (p *RefusedMin) Close(why string, now time.Time) {
	p.State, p.Error, p.Ended = wire.PlaceDone, wire.Clip(why, wire.MaxText), now.UTC()
	if why != "" {
		p.State = wire.PlaceFailed
	}
	p.Change, p.Refusal = nil, ""
}

// Final reports whether nothing more is done about the place.
func (p *RefusedMin) Final() bool { return p.State.Final() }

// PendingPolicy is a policy that a node is to put into force.
type PendingPolicy struct {
	wire.Apply
	Node    string    `json:"node"`
	Created time.Time `json:"created"`
	Heard   time.Time `json:"heard"`
	Sent    int       `json:"sent"`
	Place   string    `json:"place,omitempty"`
}

// Owns reports whether a move is that of the container that a place is for, and not
// of one that makes room.
func (p *RefusedMin) Owns(mv *Move) bool {
	return mv != nil && mv.Place == p.ID && mv.From == p.Node && mv.Container == p.Container
}
