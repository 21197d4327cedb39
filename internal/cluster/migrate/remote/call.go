// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/bound"
)

const (
	// Path begins the path of each call; the verb follows.
	Path = "/v1/migrate/"
	// MaxCall is the longest call, and the longest answer but for parts, in bytes.
	MaxCall = bound.Call
)

// Verb says what a callee is asked to do.
type Verb string

// The verbs. A node that another one calls knows the first five.
const (
	Facts    Verb = "facts"
	Describe Verb = "describe"
	Lacking  Verb = "lacking"
	Do       Verb = "do"
	Receive  Verb = "receive"

	// The helper's own.
	Send    Verb = "send"
	Copy    Verb = "copy"
	Hold    Verb = "hold"
	Release Verb = "release"
	Admit   Verb = "admit"
)

// Call has what a callee is told besides the verb.
type Call struct {
	Name  string            `json:"name,omitempty"` // describe: container; copy: migration
	Step  move.Step         `json:"step,omitempty"` // do
	Part  *migrate.Part     `json:"part,omitempty"` // send, receive
	Order *migrate.MoveSpec `json:"order,omitempty"`
	// Login goes to the helper alone, beside the order, which does not carry it.
	Login *migrate.Login `json:"login,omitempty"`
	// Warrant goes to the helper alone: with describe, lacking and admit.
	Warrant *Warrant `json:"warrant,omitempty"`
}

// ErrBusy says that a callee has too many calls under way. Nothing was done; the same call
// may be made again in a while.
var ErrBusy = errors.New("it is busy")

// Peer is the process to which calls go.
type Peer struct {
	Name   string // in errors, such as "node b at 10.0.0.2:7473"
	URL    string // without a path
	Header http.Header
	HTTP   *http.Client
}

// Ask makes a call and reads the answer into out, unless that is nil. stream is the part
// of "receive". A definite answer of the callee is a *move.Error; any other error
// leaves open what has happened there.
func (p Peer) Ask(ctx context.Context, verb Verb, in Call, stream io.Reader, out any) error {
	resp, err := p.post(ctx, verb, in, stream)
	if err != nil {
		return err
	}
	return p.read(resp, out)
}

// Do makes a request of Request's and reads the answer like Ask.
func (p Peer) Do(req *http.Request, out any) error {
	resp, err := p.send(req)
	if err != nil {
		return err
	}
	return p.read(resp, out)
}

// read reads an answer of success.
func (p Peer) read(resp *http.Response, out any) error {
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxCall))
	if err == nil {
		err = decode(text, out)
	}
	if err != nil {
		return fmt.Errorf("%s: its answer cannot be read: %w", p.Name, err)
	}
	return nil
}

// post makes a call and returns the answer if it is one of success.
func (p Peer) post(ctx context.Context, verb Verb, in Call, stream io.Reader) (*http.Response, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxCall {
		return nil, fmt.Errorf("%s: the call has %d bytes, and %d are the most; start the container with fewer labels and variables", p.Name, len(text), MaxCall)
	}
	var body io.Reader = bytes.NewReader(text)
	if stream != nil {
		if body, err = in.Before(stream); err != nil {
			return nil, err
		}
	}
	req, err := p.Request(ctx, verb, body)
	if err != nil {
		return nil, err
	}
	return p.send(req)
}

// Before returns the body of "receive": the call with its length before it, and the part.
func (c Call) Before(part io.Reader) (io.Reader, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	length := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	return io.MultiReader(bytes.NewReader(length), bytes.NewReader(text), part), nil
}

// Request returns a call whose body is the caller's; for what Call has no room for.
func (p Peer) Request(ctx context.Context, verb Verb, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+Path+string(verb), body)
	if err != nil {
		return nil, err
	}
	for name, values := range p.Header {
		req.Header[name] = values
	}
	return req, nil
}

// send makes a request and returns the answer if it is one of success.
func (p Peer) send(req *http.Request) (*http.Response, error) {
	resp, err := p.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusConflict {
		e := new(move.Error)
		if text, err := io.ReadAll(io.LimitReader(resp.Body, MaxCall)); err == nil && decode(text, e) == nil {
			return nil, e
		}
	}
	why, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		return nil, fmt.Errorf("%s: %w: %s", p.Name, ErrBusy, bytes.TrimSpace(why))
	}
	return nil, fmt.Errorf("%s: %s: %s", p.Name, resp.Status, bytes.TrimSpace(why))
}

// Read reads the call out of a request; the rest of the body is the part. most bounds
// the bytes of a call.
func Read(r *http.Request, verb Verb, most int64) (in Call, err error) {
	length := most + 1
	if verb == Receive {
		var prefix [4]byte
		if _, err := io.ReadFull(r.Body, prefix[:]); err != nil {
			return in, err
		}
		length = int64(binary.BigEndian.Uint32(prefix[:]))
	}
	if verb == Receive && length > most {
		return in, fmt.Errorf("a call of %d bytes; %d are the most", length, most)
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, length))
	switch {
	case err != nil:
		return in, err
	case int64(len(text)) > most:
		return in, fmt.Errorf("a call of more than %d bytes", most)
	}
	return in, decode(text, &in)
}

// decode reads a call or an answer. Both come from another node, or bring what one has said.
func decode(text []byte, into any) error {
	if err := bound.Lists("", text, bound.Values, bound.Values); err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func refused(msg string) *move.Error {
	return &move.Error{Code: move.CodeRefused, Msg: msg}
}

// Answer writes what Invoke returned. A caller that has gone away learns nothing.
func Answer(w http.ResponseWriter, out any, err error) {
	var definite *move.Error
	switch {
	case errors.As(err, &definite):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(definite)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}
}
