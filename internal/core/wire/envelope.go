// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"weir/internal/core/bound"
)

// Version is the version of all messages.
const Version = 2

// MaxMessage bounds a message in bytes: the profile of a node with 1,000
// containers takes about half of it.
const MaxMessage = bound.Message

// Message is the content of an envelope.
type Message interface {
	// Kind names the type, in the envelope.
	Kind() string
	// Check refuses what no sender should have sent.
	Check() error
}

// Envelope is a message on its way.
type Envelope struct {
	V       int             `json:"v"`
	Kind    string          `json:"kind"`
	From    string          `json:"from"` // a node, or Manager
	Subject Subject         `json:"subject"`
	ID      string          `json:"id"` // the same when it is sent again
	At      time.Time       `json:"at"`
	Term                    // of an order; zero for anything else
	Body    json.RawMessage `json:"body"`
	Sig     []byte          `json:"sig"`
}

// Errors of an envelope that is not what it should be. They are about the sender,
// not about the reader's state: a message with one of them is never worth reading again.
var (
	ErrMalformed = errors.New("malformed message")
	ErrVersion   = errors.New("message of another version")
	ErrForged    = errors.New("forged message")
)

// Seal puts a message into an envelope and signs it. id tells it from all others
// of its sender.
func Seal(key ed25519.PrivateKey, from string, to Subject, id string, at time.Time, m Message) ([]byte, error) {
	return seal(key, from, to, id, at, Term{}, m)
}

// SealOrder puts an order of the manager's into an envelope and signs it with its term.
func SealOrder(key ed25519.PrivateKey, to Subject, id string, at time.Time, term Term, o Order) ([]byte, error) {
	term.Until = term.Until.UTC()
	return seal(key, Manager, to, id, at, term, o)
}

func seal(key ed25519.PrivateKey, from string, to Subject, id string, at time.Time, term Term, m Message) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Kind(), err)
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Kind(), err)
	}
	e := Envelope{V: Version, Kind: m.Kind(), From: from, Subject: to, ID: id, At: at.UTC(), Term: term, Body: body}
	e.Sig = ed25519.Sign(key, e.signed())
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Kind(), err)
	}
	if len(data) > MaxMessage {
		return nil, fmt.Errorf("%s: %d bytes; a message has at most %d", m.Kind(), len(data), MaxMessage)
	}
	return data, nil
}

// Open reads an envelope. It is not verified yet, see Verify.
func Open(data []byte) (Envelope, error) {
	var e Envelope
	if len(data) > MaxMessage {
		return e, fmt.Errorf("%w: %d bytes", ErrMalformed, len(data))
	}
	if err := bound.Lists("", data, maxValues, MaxContainers); err != nil {
		return e, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if err := json.Unmarshal(data, &e); err != nil {
		return e, malformed("", err)
	}
	if e.V != Version {
		return e, fmt.Errorf("%w: %d, this is Weir with %d; run the same Weir on manager and nodes", ErrVersion, e.V, Version)
	}
	return e, nil
}

// Verify says whether the envelope was sealed with the private half of key for the
// subject on which it came.
func (e Envelope) Verify(key ed25519.PublicKey, on Subject) error {
	if e.Subject != on {
		return fmt.Errorf("%w: sealed for %.80s, came on %s", ErrForged, e.Subject, on)
	}
	if len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, e.signed(), e.Sig) {
		return fmt.Errorf("%w: not signed by %.80s", ErrForged, e.From)
	}
	return nil
}

// Read decodes the body into m, which must be of the envelope's kind.
func (e Envelope) Read(m Message) error {
	if m.Kind() != e.Kind {
		return fmt.Errorf("%w: a %.40q where a %s was expected", ErrMalformed, e.Kind, m.Kind())
	}
	if err := json.Unmarshal(e.Body, m); err != nil {
		return malformed(e.Kind+": ", err)
	}
	if err := m.Check(); err != nil {
		return malformed(e.Kind+": ", err)
	}
	return nil
}

// malformed returns the error of what cannot be read. The fault may quote a text that is as long as
// the message, eight bytes for one; of that the beginning is enough.
func malformed(kind string, fault error) error {
	if e, is := errors.AsType[*time.ParseError](fault); is { // whose text takes 60 MB to put together
		return fmt.Errorf("%w: %s%.40q is no time", ErrMalformed, kind, e.Value)
	}
	return fmt.Errorf("%w: %s%s", ErrMalformed, kind, Clip(fault.Error(), MaxText))
}

// signed returns the bytes that the signature covers: every field with its length
// before it, so that no two envelopes have the same.
func (e Envelope) signed() []byte {
	var b []byte
	stamp := func(t time.Time) []byte { return []byte(t.UTC().Format(time.RFC3339Nano)) }
	for _, field := range [][]byte{[]byte("weir bus message"), {byte(e.V)}, []byte(e.Kind), []byte(e.From), []byte(e.Subject), []byte(e.ID),
		stamp(e.At), stamp(e.Until), binary.BigEndian.AppendUint64(nil, e.Seq), e.Body} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(field)))
		b = append(b, field...)
	}
	return b
}
