// SPDX-License-Identifier: Apache-2.0

package moves

import (
	"time"

	"weir/internal/core/wire"
)

// Move is a migration as the manager knows it.
type Move struct {
	wire.Move
	State    wire.MoveState    `json:"state"`
	Created  time.Time         `json:"created"`
	Ordered  time.Time         `json:"ordered,omitzero"`
	Heard    time.Time         `json:"heard,omitzero"`     // of the last report, or the last order sent
	Said     time.Time         `json:"said,omitzero"`      // when the source reported last
	Changed  time.Time         `json:"changed,omitzero"`   // when it came further last
	Progress map[string]uint64 `json:"progress,omitempty"` // the most bytes of each step, by its name
	Cancel   *Cancellation     `json:"cancel,omitempty"`
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
	Refusal *Rejection `json:"refusal,omitempty"`
	// Profile is the container's before it was moved; nil after a restart of the manager.
	Profile *wire.ContainerProfile `json:"-"`
}

// Automatic reports whether no operator has ordered the move: it is the manager's own
// idea, or for a place that a node has asked for.
func (m *Move) Automatic() bool { return m.Auto || m.Place != "" }

// Touches reports whether a node is the source or the target of the move.
func (m *Move) Touches(node string) bool { return m.From == node || m.To == node }

// Cancellation is a request to end a move before it is done.
type Cancellation struct {
	Asked  time.Time `json:"asked"`
	Why    string    `json:"why"`
	Answer string    `json:"answer,omitempty"` // of the source, where it goes on all the same
}

// Rejection says why a target refused a move, and of which container: it counts for this
// container on this start of the target's agent.
type Rejection struct {
	Code   string    `json:"code"`
	ID     string    `json:"id"`     // of the container
	Target time.Time `json:"target"` // when the target's agent began
}

// OrderLife is the time after which a move is not begun any more.
const OrderLife = 10 * time.Minute

// Bounds of a move's kept reports. A move with all retries has about 25 steps.
const (
	MaxSteps     = 48
	MaxStepError = 200 // bytes
	MaxStepName  = 100 // bytes
)
