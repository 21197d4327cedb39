// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"io"

	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// Engine is a container engine of this machine, as far as a migration needs it. Its
// calls mean the same as Node's, without probation: Local adds that.
type Engine interface {
	// Kind says which engine this is.
	Kind() wire.EngineName
	Facts(ctx context.Context) (Facts, error)
	Describe(ctx context.Context, name string) (Container, error)
	Lacking(ctx context.Context, o MoveSpec) ([]PreflightFinding, error)
	// Do knows every step. move.Confirm gives the copy its restart policy.
	Do(ctx context.Context, step move.Step, o MoveSpec) (StepOutcome, error)
	Send(ctx context.Context, p Part, o MoveSpec, w io.Writer) (StepOutcome, error)
	Receive(ctx context.Context, p Part, o MoveSpec, r io.Reader) (StepOutcome, error)
	// Copy finds the container that was created for a migration, held or not; id is ""
	// if there is none.
	Copy(ctx context.Context, move string) (id string, running bool, err error)
	// Hold stops a copy that was restored, as it is; Release lets it run. Either is
	// satisfied if that is so already, and is a *move.Error if there is no copy that could run.
	Hold(ctx context.Context, o MoveSpec) error
	Release(ctx context.Context, o MoveSpec) error
	Close() error
}

// MoveLabel is the label of a copy: the id of the migration that made it. The
// container keeps it, and says by it how it came here.
const MoveLabel = wire.MoveLabel
