// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"io"
	"time"

	"weir/internal/cluster/move"
)

// Node is one end of a migration: a machine with a container engine, this one or
// another. Every call may be made again with the same MoveSpec, after an answer that
// was lost or a crash, and then has the effect of one.
//
// A Node answers with an *move.Error where it knows the fault; after any other error,
// the call may have had its effect or not.
type Node interface {
	// Name of the node in the cluster.
	Name() string
	// Facts returns what a pre-flight has to know.
	Facts(ctx context.Context) (Facts, error)
	// Describe finds a container by its name or a prefix of its id; move.CodeNoContainer.
	Describe(ctx context.Context, name string) (Container, error)
	// Lacking says what the node lacks as the target of this order. Nothing is changed.
	Lacking(ctx context.Context, o MoveSpec) ([]PreflightFinding, error)
	// Do takes one step of an order.
	Do(ctx context.Context, step move.Step, o MoveSpec) (StepOutcome, error)
	// Send writes a part of the frozen container, packed. It fails if it is not whole.
	Send(ctx context.Context, p Part, o MoveSpec, w io.Writer) (StepOutcome, error)
	// Receive takes what Send wrote. r ends with an error other than io.EOF if the
	// sender failed; then nothing of it counts.
	Receive(ctx context.Context, p Part, o MoveSpec, r io.Reader) (StepOutcome, error)
}

// Part is something that travels from node to node.
type Part struct {
	Kind PartKind `json:"kind"`
	Name string   `json:"name,omitempty"` // of the volume
}

// PartKind says what a part holds. All are tar archives packed with zstd.
type PartKind string

// The kinds of parts.
const (
	PartImage      PartKind = "image"      // the container's image with all layers, where there is no registry
	PartExport     PartKind = "export"     // the container's whole file system; becomes an image
	PartLayer      PartKind = "layer"      // the container's own layer: what it changed, what it deleted
	PartVolume     PartKind = "volume"     // a volume's files
	PartCheckpoint PartKind = "checkpoint" // CRIU's images: memory, registers, sockets
	PartArchive    PartKind = "archive"    // all in one, as podman exports it
	PartMemory     PartKind = "memory"     // what move.PreCopy has written
)

// String is e.g. "volume data".
func (p Part) String() string {
	if p.Name != "" {
		return string(p.Kind) + " " + p.Name
	}
	return string(p.Kind)
}

// MoveSpec says which container to migrate, and how. Both nodes get the whole of it
// with each call, so that they need remember nothing.
type MoveSpec struct {
	Move      string        `json:"move"` // id of the migration; letters, digits and -
	Container Container     `json:"container"`
	From      string        `json:"from"`
	To        string        `json:"to"`
	Approach  Approach      `json:"approach"`
	Registry  string        `json:"registry,omitempty"` // host:port[/prefix] as both engines name it; "" = none
	Lease     time.Duration `json:"lease_ns"`           // for which the target's copy lives unconfirmed
	// CloseConnections lets established TCP connections to elsewhere end instead of
	// refusing the migration.
	CloseConnections bool `json:"close_connections,omitempty"`
	// PreCopy sends the memory while the container still runs, and then once more what
	// has changed meanwhile.
	PreCopy bool `json:"pre_copy,omitempty"`
	// KeepVolumes leaves the source's volumes where they are after the migration.
	KeepVolumes bool `json:"keep_volumes,omitempty"`
	// Login is the login that this node's engine shows to the registry. It is a node's
	// own: it neither travels nor is it written down.
	Login Login `json:"-"`
	// Committed has the result of move.Commit and move.Push; nil before them.
	Committed *Committed `json:"committed,omitempty"`
}

// Login is a user of a registry, with a password; none by default.
type Login struct{ User, Password string }

// Approach says how the file system travels.
type Approach string

// The approaches. The first two are the C-Balancer paper's (section II).
const (
	ApproachAuto   Approach = ""        // the fastest that is possible
	ApproachExport Approach = "export"  // 1: the whole file system, exported and imported
	ApproachCommit Approach = "commit"  // 2: the changed layer, committed, pushed and pulled
	ApproachLayer  Approach = "layer"   // 2 without the detour: the changed layer goes from node to node as it is
	ApproachBundle Approach = "archive" // podman's: memory and changed layer in one archive
)

// Approaches lists the approaches that a caller can ask for.
var Approaches = []Approach{ApproachExport, ApproachCommit, ApproachLayer, ApproachBundle}

// StepOutcome says what a step has done. Bytes counts what crossed the network, Raw what that
// was before it was packed; 0 where nothing travels, -1 where it was not counted.
type StepOutcome struct {
	Bytes int64  `json:"bytes,omitempty"`
	Raw   int64  `json:"raw_bytes,omitempty"`
	Note  string `json:"note,omitempty"` // for people, e.g. "already there"
	// ImageID is the image that move.Commit has made, Digest the one that move.Push has
	// sent.
	ImageID string `json:"image_id,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Copy is the id of the container that move.Confirm has made of the copy.
	Copy string `json:"copy,omitempty"`
}
