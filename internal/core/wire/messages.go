// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ChangeJSON is a change of a workload's policy as the agent's API has it
// (api.PolicyChange), in JSON.
type ChangeJSON = json.RawMessage

// Heartbeat says that a node lives. It is sent every few seconds, whatever else
// happens on the node.
type Heartbeat struct {
	Node     string    `json:"node"`
	Seq      uint64    `json:"seq"` // grows by one, from 1 at the agent's start
	Started  time.Time `json:"started"`
	Weir     string    `json:"weir"`              // version of the agent
	Kernel   string    `json:"kernel,omitempty"`  // release, as uname -r prints it
	Address  string    `json:"address,omitempty"` // host:port where other nodes reach it for migrations
	Engines  []Engine  `json:"engines,omitempty"`
	CRIU     string    `json:"criu,omitempty"`     // its version; "" = containers cannot be checkpointed here
	Draining bool      `json:"draining,omitempty"` // takes no containers
	Moves    []string  `json:"moves,omitempty"`    // ids of those under way here
}

// Engine is a container engine of a node.
type Engine struct {
	Name    EngineName `json:"name"`
	Version string     `json:"version"`
}

// Move orders the node From to migrate a container to To. It is obeyed once however
// often it comes; after Deadline, not begun any more. Sealed for L.<From>, it is
// also what From shows To as the permission for a pre-flight: To answers what it is
// and what it lacks, and changes nothing. For more, From needs a Grant.
type Move struct {
	ID        string     `json:"id"`
	Container string     `json:"container"` // its name
	Engine    EngineName `json:"engine,omitempty"`
	From      string     `json:"from"`
	To        string     `json:"to"`
	Address   string     `json:"address"`            // host:port of To
	Approach  string     `json:"approach,omitempty"` // how its files travel, "" = the node's choice
	Registry  string     `json:"registry,omitempty"` // host:port[/prefix]
	Deadline  time.Time  `json:"deadline"`
	DryRun    bool       `json:"dry_run,omitempty"` // the pre-flight alone
	Why       string     `json:"why,omitempty"`     // for people
}

// MoveReport tells what became of a move, or of one step of it.
type MoveReport struct {
	ID       string        `json:"id"` // of the move
	Node     string        `json:"node"`
	Seq      uint64        `json:"seq"`  // order of the reports about this move
	Step     string        `json:"step"` // e.g. "checkpoint"
	State    MoveState     `json:"state"`
	Bytes    uint64        `json:"bytes"`       // that the step has moved
	Duration time.Duration `json:"duration_ns"` // of the step so far
	Downtime time.Duration `json:"downtime_ns,omitempty"`
	Error    string        `json:"error,omitempty"`
	// Cancel says why a move that was to be cancelled goes on.
	Cancel string `json:"cancel,omitempty"`
	// Code names what has refused the move, such as "not-accepted", if that stays until
	// the container or a node is changed; "" = it may pass.
	Code string `json:"code,omitempty"`
}

// Apply orders a node to change the policy of one of its workloads, as weir set does.
type Apply struct {
	ID       string     `json:"id"`
	Workload string     `json:"workload"` // its name
	Change   ChangeJSON `json:"change"`
	Why      string     `json:"why,omitempty"`
}

// ApplyReport tells what became of an Apply.
type ApplyReport struct {
	ID    string `json:"id"`
	Node  string `json:"node"`
	Error string `json:"error,omitempty"` // "" = it is in force
}

// PlaceRequest asks the manager for a node that can hold what this one had to
// refuse: a min or a reservation of a container.
type PlaceRequest struct {
	ID        string     `json:"id"`
	Node      string     `json:"node"` // that refused
	Container string     `json:"container"`
	MinBps    uint64     `json:"min_bps"` // the rate to guarantee, egress (upload)
	Change    ChangeJSON `json:"change"`  // what was asked for, to be applied where it goes
	Refusal   string     `json:"refusal"` // the node's words
}

// PlaceAnswer is the manager's answer to a PlaceRequest.
type PlaceAnswer struct {
	Move   string   `json:"move,omitempty"` // id, "" if there is no place
	To     string   `json:"to,omitempty"`
	Why    string   `json:"why,omitempty"`
	Lacks  []string `json:"lacks,omitempty"` // without a place: per node, what it lacks
	Queued bool     `json:"queued,omitempty"`
}

// The kinds.

func (*Profile) Kind() string     { return "profile" }
func (Heartbeat) Kind() string    { return "heartbeat" }
func (Move) Kind() string         { return "move" }
func (MoveReport) Kind() string   { return "move-report" }
func (Apply) Kind() string        { return "apply" }
func (ApplyReport) Kind() string  { return "apply-report" }
func (PlaceRequest) Kind() string { return "place-request" }
func (PlaceAnswer) Kind() string  { return "place-answer" }

// given names the first of the fields that is empty: name, value, name, value, ...
func given(pairs ...string) error {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return errors.New(pairs[i] + " is missing")
		}
	}
	return nil
}

// Check implements Message.
func (h Heartbeat) Check() error {
	err := cmp.Or(CheckNode(h.Node), short(MaxName, "weir", h.Weir, "kernel", h.Kernel, "address", h.Address, "criu", h.CRIU),
		few("engines", len(h.Engines), MaxEngines), few("moves", len(h.Moves), MaxMoves))
	for _, e := range h.Engines {
		err = cmp.Or(err, short(MaxName, "engine", string(e.Name), "version of engine", e.Version))
	}
	for _, id := range h.Moves {
		err = cmp.Or(err, CheckMove(id))
	}
	return err
}

// Check implements Message.
func (m Move) Check() error {
	if m.From == m.To && m.From != "" {
		return fmt.Errorf("from %s to %s is no move", m.From, m.To)
	}
	return cmp.Or(given("id", m.ID, "container", m.Container), CheckMove(m.ID), CheckNode(m.From), CheckNode(m.To))
}

// Check implements Message.
func (r MoveReport) Check() error {
	if r.State != MoveRunning && !r.State.Settles() {
		return fmt.Errorf("state %.40q of a move is not known", r.State)
	}
	return cmp.Or(given("id", r.ID), CheckMove(r.ID), CheckNode(r.Node), short(MaxName, "step", r.Step, "code", r.Code), short(MaxText, "error", r.Error, "cancel", r.Cancel))
}

// Check implements Message.
func (a Apply) Check() error {
	return cmp.Or(given("id", a.ID, "workload", a.Workload), short(MaxName, "id", a.ID, "workload", a.Workload), short(MaxText, "why", a.Why),
		short(MaxChange, "change", string(a.Change)))
}

// Check implements Message.
func (r ApplyReport) Check() error {
	return cmp.Or(given("id", r.ID), CheckNode(r.Node), short(MaxName, "id", r.ID), short(MaxText, "error", r.Error))
}

// Check implements Message.
func (p PlaceRequest) Check() error {
	if p.MinBps > maxRate {
		return fmt.Errorf("min_bps is %d; no link has that", p.MinBps)
	}
	return cmp.Or(given("id", p.ID, "container", p.Container), CheckNode(p.Node), short(MaxName, "id", p.ID, "container", p.Container),
		short(MaxText, "refusal", p.Refusal), short(MaxChange, "change", string(p.Change)))
}

// Check implements Message.
func (p PlaceAnswer) Check() error { return nil }
