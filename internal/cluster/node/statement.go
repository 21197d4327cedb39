// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/wire"
)

// A part is made after the manager has granted the move, so its hash is in no grant.
// The source signs it behind the part (an HTTP trailer): what the target has unpacked
// is then bound to the move and to the key of the node that sent it.

// state seals what has been sent of a move.
func (n *Node) state(to string, s wire.Statement) (string, error) {
	sealed, err := n.members.Seal(wire.Statements(to), s.Move+"/"+s.Part, s)
	return base64.StdEncoding.EncodeToString(sealed), err
}

// statement reads what the source of a grant has stated about a part.
func (n *Node) statement(text string, p permission, part string) (s wire.Statement, err error) {
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sealed) == 0 {
		return s, deny(whyAltered, migrate.CodeDenied, "nothing is stated about %s", part)
	}
	e, err := wire.Open(sealed)
	if err == nil && e.From != p.source {
		err = errors.New("it is stated by " + e.From)
	}
	if err == nil {
		err = e.Verify(p.key, wire.Statements(n.opts.Name))
	}
	if err == nil {
		err = e.Read(&s)
	}
	if err != nil {
		return s, deny(whyForged, migrate.CodeDenied, "statement about %s: %v", part, err)
	}
	if s.Move != p.grant.Move || s.Part != part {
		return s, deny(whyForeign, migrate.CodeDenied, "a statement about %.80q of move %s, where one about %q of %s was expected", s.Part, s.Move, part, p.grant.Move)
	}
	return s, nil
}

// hashed is a reader that hashes the bytes read through it. It calls end with the sum
// before it reports io.EOF.
type hashed struct {
	r   io.Reader
	sum hash.Hash
	n   int64
	end func(sum string, bytes int64) error
}

func (h *hashed) Read(p []byte) (int, error) {
	if h.sum == nil {
		h.sum = sha256.New()
	}
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

// stated is a stream whose end is an error unless its hash is what was stated.
type stated struct {
	r      io.Reader
	check  func(sum string, bytes int64) error
	sum    string // once it was checked
	failed error
	hashed *hashed
}

func (s *stated) Read(p []byte) (int, error) {
	switch {
	case s.failed != nil:
		return 0, s.failed
	case s.sum != "":
		return 0, io.EOF
	case s.hashed == nil:
		s.hashed = &hashed{r: s.r, end: func(sum string, bytes int64) error {
			if s.failed = s.check(sum, bytes); s.failed == nil {
				s.sum = sum
			}
			return s.failed
		}}
	}
	return s.hashed.Read(p)
}
