// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
)

// The calls from node to node have two headers more. OrderHeader carries what the manager
// has sealed: a wire.Move, or a wire.Grant once there is one. Behind a part, as a trailer,
// and with the step "pull", StatementHeader carries the source's wire.Statement. Only
// "lacking" has an order; "begin" has a proposal in its place, and what comes after it
// says which step or part of that is meant.
const (
	OrderHeader     = "Weir-Order"
	StatementHeader = "Weir-Statement"

	Begin Verb = "begin"
)

// Hashed is a reader that hashes the bytes read through it.
type Hashed struct {
	r   io.Reader
	sum hash.Hash
	n   int64
	end func(sum string, bytes int64) error
}

// NewHashed returns a reader that calls end with the SHA-256, in hex, and the number of
// bytes before it reports io.EOF.
func NewHashed(r io.Reader, end func(sum string, bytes int64) error) *Hashed {
	return &Hashed{r: r, sum: sha256.New(), end: end}
}

// Read implements io.Reader.
func (h *Hashed) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	h.sum.Write(p[:n])
	h.n += int64(n)
	if errors.Is(err, io.EOF) {
		if failed := h.end(hex.EncodeToString(h.sum.Sum(nil)), h.n); failed != nil {
			return n, failed
		}
	}
	return n, err
}
