// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// Socket is the path of the helper's socket on this machine (weir-migrate.socket).
const Socket = "/run/weir-migrate.sock"

// dialTimeout bounds a connection to the helper, which systemd starts for it.
const dialTimeout = 10 * time.Second

// Engine is the engine that the helper of this machine has, as a migrate.Engine.
type Engine struct {
	peer Peer
	kind wire.EngineName
}

var _ migrate.Engine = (*Engine)(nil)

// Open returns the engine of the helper at a socket. kind is what the caller knows it to
// be, docker or podman. fs.ErrNotExist: there is no helper. It need not run yet.
func Open(socket string, kind wire.EngineName) (*Engine, error) {
	if _, err := os.Stat(socket); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: dialTimeout}
	// A connection for each call: the helper ends when there has been none for a while.
	transport := &http.Transport{DisableKeepAlives: true, WriteBufferSize: 256 << 10, ReadBufferSize: 256 << 10,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) }}
	return &Engine{kind: kind, peer: Peer{Name: "migration helper at " + socket, URL: "http://helper", HTTP: &http.Client{Transport: transport}}}, nil
}

// Kind implements migrate.Engine.
func (e *Engine) Kind() wire.EngineName { return e.kind }

// Close implements migrate.Engine.
func (e *Engine) Close() error {
	e.peer.HTTP.CloseIdleConnections()
	return nil
}

// Facts implements migrate.Engine.
func (e *Engine) Facts(ctx context.Context) (f migrate.Facts, err error) {
	return f, e.peer.Ask(ctx, Facts, Call{}, nil, &f)
}

// Describe implements migrate.Engine.
func (e *Engine) Describe(ctx context.Context, name string) (c migrate.Container, err error) {
	return c, e.peer.Ask(ctx, Describe, Call{Name: name, Warrant: warrantOf(ctx)}, nil, &c)
}

// Lacking implements migrate.Engine.
func (e *Engine) Lacking(ctx context.Context, o migrate.MoveSpec) (list []migrate.PreflightFinding, err error) {
	return list, e.peer.Ask(ctx, Lacking, Call{Order: &o, Warrant: warrantOf(ctx)}, nil, &list)
}

// Admit shows the helper the warrant of a context: the grant of a move, and what was
// granted. The calls for the move come after it.
func (e *Engine) Admit(ctx context.Context) error {
	return e.peer.Ask(ctx, Admit, Call{Warrant: warrantOf(ctx)}, nil, nil)
}

// Do implements migrate.Engine.
func (e *Engine) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	return out, e.peer.Ask(ctx, Do, Call{Step: step, Order: &o, Login: &o.Login}, nil, &out)
}

// Receive implements migrate.Engine.
func (e *Engine) Receive(ctx context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (out migrate.StepOutcome, err error) {
	return out, e.peer.Ask(ctx, Receive, Call{Part: &p, Order: &o}, r, &out)
}

// Send implements migrate.Engine.
func (e *Engine) Send(ctx context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (out migrate.StepOutcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := e.peer.post(ctx, Send, Call{Part: &p, Order: &o}, nil)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return out, fmt.Errorf("%s: %s: %w", e.peer.Name, p, err)
	}
	var end ending
	if err := json.Unmarshal([]byte(resp.Trailer.Get(endTrailer)), &end); err != nil {
		return out, fmt.Errorf("%s: %s ends without a word: %w", e.peer.Name, p, err)
	}
	switch {
	case end.Definite != nil:
		return end.Outcome, end.Definite
	case end.Error != "":
		return end.Outcome, fmt.Errorf("%s: %s: %s", e.peer.Name, p, end.Error)
	}
	return end.Outcome, nil
}

// found is the answer of "copy".
type found struct {
	ID      string `json:"id"`
	Running bool   `json:"running"`
}

// Copy implements migrate.Engine.
func (e *Engine) Copy(ctx context.Context, move string) (id string, running bool, err error) {
	var f found
	err = e.peer.Ask(ctx, Copy, Call{Name: move}, nil, &f)
	return f.ID, f.Running, err
}

// Hold implements migrate.Engine.
func (e *Engine) Hold(ctx context.Context, o migrate.MoveSpec) error {
	return e.peer.Ask(ctx, Hold, Call{Order: &o}, nil, nil)
}

// Release implements migrate.Engine.
func (e *Engine) Release(ctx context.Context, o migrate.MoveSpec) error {
	return e.peer.Ask(ctx, Release, Call{Order: &o}, nil, nil)
}

// endTrailer is the trailer of "send": how the part ended.
const endTrailer = "Weir-End"

// maxEnd is the longest error in a trailer, in bytes.
const maxEnd = 4 << 10

// ending is the trailer's value.
type ending struct {
	Outcome  migrate.StepOutcome `json:"outcome"`
	Definite *move.Error         `json:"definite,omitempty"`
	Error    string              `json:"error,omitempty"`
}

func (e ending) String() string {
	if e.Definite != nil {
		short := *e.Definite
		short.Msg = short.Msg[:min(len(short.Msg), maxEnd)]
		e.Definite = &short
	}
	e.Error = e.Error[:min(len(e.Error), maxEnd)]
	text, err := json.Marshal(e)
	return cmp.Or(string(text), fmt.Sprint(err))
}
