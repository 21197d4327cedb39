// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/bound"
	"weir/internal/core/wire"
)

// longestLease bounds what a source asks for: a copy on probation holds memory.
const longestLease = time.Hour

// Proposal is a source's description of its container (call "begin"). The manager's
// grant has the SHA-256 of its bytes.
type Proposal struct {
	Order    migrate.MoveSpec `json:"order"`
	Settings wire.ChangeJSON  `json:"settings,omitempty"` // set at run time for the container
}

// Digest returns the SHA-256 of the bytes that a source describes its container by.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ManifestOf returns the part of a proposal that the manager is told.
func ManifestOf(o migrate.MoveSpec, text []byte) wire.Manifest {
	return wire.Manifest{Move: o.Move, Node: o.From, Container: o.Container.Name, ContainerID: o.Container.ID, Engine: o.Container.Engine,
		Approach: string(o.Approach), Digest: Digest(text), ImageID: o.Container.ImageID, Parts: o.Parts(), MemoryBytes: o.Container.MemoryBytes}
}

// ReadProposal reads what a source describes its container by, and checks that it is
// what the manager has granted.
func ReadProposal(text []byte, g wire.Grant) (p Proposal, err error) {
	if Digest(text) != g.Digest {
		return p, fmt.Errorf("the container that is described is not the one that the manager has granted")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err = bound.Lists("", text, bound.Values, bound.Values); err == nil {
		err = d.Decode(&p)
	}
	if err != nil {
		return p, fmt.Errorf("the description of the container cannot be read: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return p, fmt.Errorf("something follows the description of the container")
	}
	o := p.Order
	switch {
	case o.From != g.From || o.To != g.To:
		return p, fmt.Errorf("it describes a move from %.40q to %.40q", o.From, o.To)
	case !ManifestOf(o, text).Same(g.Manifest):
		return p, fmt.Errorf("it describes another container than the grant: %.80q (%.12s)", o.Container.Name, o.Container.ID)
	case o.Lease <= 0 || o.Lease > longestLease:
		return p, fmt.Errorf("a probation of %v; up to %v is possible", o.Lease, longestLease)
	case o.Committed != nil || o.Registry != "":
		return p, fmt.Errorf("it names an image or a registry, which are not the source's to name")
	}
	return p, nil
}

// Accepts refuses a source from which no containers are taken: from is
// cluster.accept_from, nil for all members. kind is the engine's.
func Accepts(node string, kind wire.EngineName, from []string, source string) error {
	if from == nil && kind == wire.EnginePodman {
		// The configuration is inside of Podman's archive, which is not examined here.
		return &move.Denied{Reason: move.WhyNotAccepted, Answer: &move.Error{Code: move.CodeNotAccepted, Node: node, Msg: "takes no containers of Podman from nodes that it was not told to trust: what their archives say is obeyed as it is",
			Remedy: "an operator of " + node + " may name nodes whose root may be root there: cluster.accept_from: [" + source + "] in weir.yaml"}}
	}
	if from != nil && !slices.Contains(from, source) {
		return &move.Denied{Reason: move.WhyNotAccepted, Answer: &move.Error{Code: move.CodeNotAccepted, Node: node, Msg: fmt.Sprintf("takes no containers from %s (cluster.accept_from: %v)", source, from),
			Remedy: "an operator of " + node + " may add it there in weir.yaml"}}
	}
	return nil
}
