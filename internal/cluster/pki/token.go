// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Token lets a node join. Who has it can become a node until it expires, so it is a
// secret; Public may be shown.
type Token struct {
	Authority [sha256.Size]byte // Hash of the authority
	ID        string            // 6 hexadecimal digits
	Secret    string            // 32 hexadecimal digits
}

const tokenPrefix = "weir1"

// NewToken makes one for an authority.
func NewToken(authority [sha256.Size]byte) Token {
	var b [19]byte
	rand.Read(b[:]) // does not fail
	return Token{authority, hex.EncodeToString(b[:3]), hex.EncodeToString(b[3:])}
}

// String returns the token as a person passes it on.
func (t Token) String() string {
	return strings.Join([]string{tokenPrefix, base64.RawURLEncoding.EncodeToString(t.Authority[:]), t.ID, t.Secret}, ".")
}

var errToken = errors.New(`no token; copy the text that begins with "` + tokenPrefix + `." from the output of weir manager init or weir manager token`)

// ParseToken reads what String wrote. The error does not contain the text, which
// may be a secret.
func ParseToken(text string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 4 || parts[0] != tokenPrefix {
		return Token{}, errToken
	}
	hash, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || len(hash) != sha256.Size {
		return Token{}, errToken
	}
	t := Token{ID: parts[2], Secret: parts[3]}
	copy(t.Authority[:], hash)
	for field, length := range map[string]int{t.ID: 6, t.Secret: 32} {
		if b, err := hex.DecodeString(field); err != nil || len(b) != length/2 {
			return Token{}, fmt.Errorf("%w (part of it is missing)", errToken)
		}
	}
	return t, nil
}
