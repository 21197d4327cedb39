// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"encoding/base64"
	"errors"
	"io"

	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// A part is made after the manager has granted the move, so its hash is in no grant.
// The source signs it behind the part (an HTTP trailer): what the target has unpacked
// is then bound to the move and to the key of the node that sent it.

// statement reads what the source of a grant has stated about a part.
func (s *Server) statement(text string, p permission, part string) (out wire.Statement, err error) {
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sealed) == 0 {
		return out, move.Deny(move.WhyAltered, move.CodeDenied, "nothing is stated about %s", part)
	}
	e, err := wire.Open(sealed)
	if err == nil && e.From != p.source {
		err = errors.New("it is stated by " + e.From)
	}
	if err == nil {
		err = e.Verify(p.key, wire.Statements(s.opts.Members.Name()))
	}
	if err == nil {
		err = e.Read(&out)
	}
	if err != nil {
		return out, move.Deny(move.WhyForged, move.CodeDenied, "statement about %s: %v", part, err)
	}
	if out.Move != p.grant.Move || out.Part != part {
		return out, move.Deny(move.WhyForeign, move.CodeDenied, "a statement about %.80q of move %s, where one about %q of %s was expected", out.Part, out.Move, part, p.grant.Move)
	}
	return out, nil
}

// stated is a stream whose end is an error unless its hash is what was stated.
type stated struct {
	r      io.Reader
	check  func(sum string, bytes int64) error
	sum    string // once it was checked
	failed error
	hashed *remote.Hashed
}

func (s *stated) Read(p []byte) (int, error) {
	switch {
	case s.failed != nil:
		return 0, s.failed
	case s.sum != "":
		return 0, io.EOF
	case s.hashed == nil:
		s.hashed = remote.NewHashed(s.r, func(sum string, bytes int64) error {
			if s.failed = s.check(sum, bytes); s.failed == nil {
				s.sum = sum
			}
			return s.failed
		})
	}
	return s.hashed.Read(p)
}
