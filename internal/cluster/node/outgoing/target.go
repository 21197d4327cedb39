// SPDX-License-Identifier: Apache-2.0

package outgoing

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"weir/internal/base/retry"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/guest"
	"weir/internal/core/wire"
)

// Target is another machine as a migrate.Node: the target of a move.
type Target struct {
	name  string
	peer  remote.Peer
	state func(to string, s wire.Statement) (string, error)
}

var _ migrate.Node = (*Target)(nil)

// Target returns the node that a move goes to. sealed is the manager's Move, or its
// Grant.
func (m *Moves) Target(order wire.Move, sealed []byte) *Target {
	// A client for each move: a certificate may have been renewed since the last.
	r := &Target{name: order.To, state: m.state, peer: remote.Peer{Name: fmt.Sprintf("node %s at %s", order.To, order.Address),
		URL: "https://" + order.Address, Header: http.Header{}, HTTP: &http.Client{
			Transport: &http.Transport{DialContext: m.opts.Dial, TLSClientConfig: m.opts.Members.ClientTLS(order.To), TLSHandshakeTimeout: 5 * time.Second,
				IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2, WriteBufferSize: 256 << 10, ReadBufferSize: 64 << 10}}}}
	r.show(sealed)
	return r
}

// show has later calls carry what the manager has sealed.
func (r *Target) show(sealed []byte) {
	r.peer.Header.Set(remote.OrderHeader, base64.StdEncoding.EncodeToString(sealed))
}

// Name implements migrate.Node.
func (r *Target) Name() string { return r.name }

// Facts implements migrate.Node.
func (r *Target) Facts(ctx context.Context) (f migrate.Facts, err error) {
	return f, patiently(ctx, func() error { return r.peer.Ask(ctx, remote.Facts, remote.Call{}, nil, &f) })
}

// Describe implements migrate.Node. What runs on another node is not told.
func (r *Target) Describe(context.Context, string) (migrate.Container, error) {
	return migrate.Container{}, errors.New("a target does not describe its containers")
}

// Lacking implements migrate.Node.
func (r *Target) Lacking(ctx context.Context, o migrate.MoveSpec) (list []migrate.PreflightFinding, err error) {
	o = guest.Travelling(o)
	text, err := json.Marshal(remote.Call{Order: &o})
	if err == nil {
		err = guest.Describable(o.Container.Name, text)
	}
	if err != nil {
		return nil, err
	}
	return list, r.ask(ctx, remote.Lacking, text, "", &list)
}

// ask makes a call that may be made again.
func (r *Target) ask(ctx context.Context, verb remote.Verb, text []byte, statement string, out any) error {
	return patiently(ctx, func() error {
		req, err := r.peer.Request(ctx, verb, bytes.NewReader(text))
		if err != nil {
			return err
		}
		if statement != "" {
			req.Header.Set(remote.StatementHeader, statement)
		}
		return r.peer.Do(req, out)
	})
}

// busyLimit is how long this node asks a node again that has too much to do.
const busyLimit = time.Minute

// patiently makes a call again while the other node says that it has too many.
func patiently(ctx context.Context, call func() error) error {
	begun := time.Now()
	for pauses := retry.New(250*time.Millisecond, 4*time.Second); ; {
		err := call()
		if !errors.Is(err, remote.ErrBusy) || time.Since(begun) > busyLimit {
			return err
		}
		if !pauses.Wait(ctx) {
			return err
		}
	}
}

// begin describes a container to its target, which keeps the description: the calls
// after it only say which step of it is meant.
func (r *Target) begin(ctx context.Context, proposal, grant []byte) error {
	r.show(grant)
	return r.ask(ctx, remote.Begin, proposal, "", nil)
}

// Do implements migrate.Node.
func (r *Target) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (out migrate.StepOutcome, err error) {
	text, err := json.Marshal(remote.Call{Step: step})
	if err != nil {
		return out, err
	}
	stated := ""
	if step == move.Pull && o.Committed != nil {
		stated, err = r.state(r.name, wire.Statement{Move: o.Move, Part: migrate.PartCommit,
			SHA256: strings.TrimPrefix(o.Committed.Digest, "sha256:"), ImageID: o.Committed.ImageID})
		if err != nil {
			return out, err
		}
	}
	return out, r.ask(ctx, remote.Do, text, stated, &out)
}

// Send implements migrate.Node. Only a source sends, and that is never remote.
func (r *Target) Send(context.Context, migrate.Part, migrate.MoveSpec, io.Writer) (migrate.StepOutcome, error) {
	return migrate.StepOutcome{}, errors.New("a target does not send")
}

// Receive implements migrate.Node.
func (r *Target) Receive(ctx context.Context, p migrate.Part, o migrate.MoveSpec, from io.Reader) (out migrate.StepOutcome, err error) {
	trailer := http.Header{remote.StatementHeader: nil}
	part := remote.NewHashed(from, func(sum string, bytes int64) error {
		stated, err := r.state(r.name, wire.Statement{Move: o.Move, Part: p.String(), SHA256: sum, Bytes: bytes})
		trailer.Set(remote.StatementHeader, stated)
		return err
	})
	body, err := remote.Call{Part: &p}.Before(part)
	if err != nil {
		return out, err
	}
	req, err := r.peer.Request(ctx, remote.Receive, body)
	if err != nil {
		return out, err
	}
	req.Trailer = trailer
	return out, r.peer.Do(req, &out)
}

// state seals what has been sent of a move.
func (m *Moves) state(to string, s wire.Statement) (string, error) {
	sealed, err := m.opts.Members.Seal(wire.Statements(to), s.Move+"/"+s.Part, s)
	return base64.StdEncoding.EncodeToString(sealed), err
}
