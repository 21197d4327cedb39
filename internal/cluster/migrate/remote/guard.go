// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
)

// Warrant is the permission that the agent shows to the helper for a move.
type Warrant struct {
	Sealed   []byte `json:"sealed"`             // the manager's Move or Grant, in its envelope
	Manager  []byte `json:"manager,omitempty"`  // the manager's certificate with its chain, PEM
	Proposal []byte `json:"proposal,omitempty"` // with a Grant: the description that the grant has the hash of
}

type warrantKey struct{}

// WithWarrant has the calls that an Engine makes with the context show a warrant.
func WithWarrant(ctx context.Context, w Warrant) context.Context {
	return context.WithValue(ctx, warrantKey{}, w)
}

func warrantOf(ctx context.Context) *Warrant {
	if w, ok := ctx.Value(warrantKey{}).(Warrant); ok {
		return &w
	}
	return nil
}

// Guard decides which calls the helper's engine gets. A *move.Error, wrapped or not,
// refuses one.
type Guard interface {
	// Describe and Lacking permit a pre-flight.
	Describe(w *Warrant, name string) error
	Lacking(w *Warrant, o migrate.MoveSpec) error
	// Admit takes in a move that the manager has granted. The calls below are about one.
	Admit(w *Warrant) error
	// Take permits a step; part is "" but for move.Send and move.Receive.
	Take(verb Verb, step move.Step, part string, o migrate.MoveSpec) (Passage, error)
	Copy(move string) error
}

// Passage is the permission for one call.
type Passage struct {
	Order migrate.MoveSpec // for the engine, in the place of the caller's
	// Before is the outcome of the same call before: the engine is not asked again.
	Before *migrate.StepOutcome
	// Done is told what came of the call, and returns the error of its answer.
	Done func(migrate.StepOutcome, error) error
}

// guarded is an engine whose calls a guard permits, one by one.
type guarded struct {
	migrate.Engine
	guard Guard
}

func (g guarded) describe(ctx context.Context, in Call) (migrate.Container, error) {
	if err := g.guard.Describe(in.Warrant, in.Name); err != nil {
		return migrate.Container{}, err
	}
	return g.Engine.Describe(ctx, in.Name)
}

func (g guarded) lacking(ctx context.Context, in Call) ([]migrate.PreflightFinding, error) {
	if err := g.guard.Lacking(in.Warrant, *in.Order); err != nil {
		return nil, err
	}
	return g.Engine.Lacking(ctx, *in.Order)
}

// pass makes a call that a guard has permitted, unless it was made before.
func pass(p Passage, err error, call func(migrate.MoveSpec) (migrate.StepOutcome, error)) (migrate.StepOutcome, error) {
	switch {
	case err != nil:
		return migrate.StepOutcome{}, err
	case p.Before != nil:
		return *p.Before, nil
	}
	out, err := call(p.Order)
	return out, p.Done(out, err)
}
