// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"time"

	"weir/internal/cluster/manager/statedir"
	"weir/internal/cluster/wire"
)

// The buckets of the database beside those of package membership.
const (
	bucketMoves   statedir.Bucket[move]  = "moves"
	bucketPlaces  statedir.Bucket[place] = "places"
	bucketApplies statedir.Bucket[apply] = "applies"
	bucketOrders  statedir.Bucket[order] = "orders"
)

var buckets = []string{string(bucketMoves), string(bucketPlaces), string(bucketApplies), string(bucketOrders)}

// metaSequence is the key in statedir.Meta of the last order's sequence.
const metaSequence = "sequence"

// change is a change of the database.
type change struct {
	statedir.Change
	orders []order // among the records: what goes to the bus once they are written
}

// move is a migration as the manager knows it.
type move struct {
	wire.Move
	State    wire.MoveState    `json:"state"`
	Created  time.Time         `json:"created"`
	Ordered  time.Time         `json:"ordered,omitzero"`
	Heard    time.Time         `json:"heard,omitzero"`     // of the last report, or the last order sent
	Said     time.Time         `json:"said,omitzero"`      // when the source reported last
	Changed  time.Time         `json:"changed,omitzero"`   // when it came further last
	Progress map[string]uint64 `json:"progress,omitempty"` // the most bytes of each step, by its name
	Cancel   *cancellation     `json:"cancel,omitempty"`
	Sent     int               `json:"sent"` // how often it was ordered
	Ended    time.Time         `json:"ended,omitzero"`
	Seq      uint64            `json:"seq"` // of the last report
	Step     string            `json:"step,omitempty"`
	Error    string            `json:"error,omitempty"`
	Downtime time.Duration     `json:"downtime_ns,omitempty"`
	Steps    []wire.MoveReport `json:"steps,omitempty"`
	Auto     bool              `json:"auto,omitempty"` // the manager's own idea
	// After are moves that have to end first, as done.
	After []string `json:"after,omitempty"`
	Place string   `json:"place,omitempty"` // id of the place that it is for
	// Manifest is the source's description, for which the move was granted; nil =
	// nothing yet.
	Manifest *wire.Manifest `json:"manifest,omitempty"`
	// Arrived is when the target had applied what came with the container, and Unmet what
	// of it does not hold there.
	Arrived time.Time `json:"arrived,omitzero"`
	Unmet   string    `json:"unmet,omitempty"`
	// Refusal says why a target refused it, if the reason stays for a while.
	Refusal *rejection `json:"refusal,omitempty"`
	// profile is the container's before it was moved; nil after a restart of the manager.
	profile *wire.ContainerProfile
}

// final reports whether the move has ended, as far as is known.
func (m *move) final() bool { return m.State.Final() }

// underWay reports whether the node may be working on it.
func (m *move) underWay() bool { return m.State.UnderWay() }

// place is a min that a node had to refuse.
type place struct {
	wire.PlaceRequest
	Answer  wire.PlaceAnswer `json:"answer"`
	To      string           `json:"to"`    // where the min will be in force
	Moves   []string         `json:"moves"` // ids
	State   wire.PlaceState  `json:"state"`
	Error   string           `json:"error,omitempty"`
	Created time.Time        `json:"created"`
	Ended   time.Time        `json:"ended,omitzero"`
}

// close ends a place, as done if why is "". What was asked for is not kept any more.
func (p *place) close(why string, now time.Time) {
	p.State, p.Error, p.Ended = wire.PlaceDone, wire.Clip(why, wire.MaxText), now.UTC()
	if why != "" {
		p.State = wire.PlaceFailed
	}
	p.Change, p.Refusal = nil, ""
}

func (p *place) final() bool { return p.State.Final() }

// apply is a policy that a node is to put into force.
type apply struct {
	wire.Apply
	Node    string    `json:"node"`
	Created time.Time `json:"created"`
	Heard   time.Time `json:"heard"`
	Sent    int       `json:"sent"`
	Place   string    `json:"place,omitempty"`
}

// order is a message on its way to the bus.
type order struct {
	Seq     uint64       `json:"seq"`
	Subject wire.Subject `json:"subject"`
	ID      string       `json:"id"` // for the bus
	Data    []byte       `json:"data"`
}
