// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
)

// The routes of a node for a migration, all POST, below this path. The header
// orderHeader carries the manager's sealed order. The body is a call as JSON; that of
// "receive" is a call with its length (4 bytes, big endian) before it, and then the part.
const (
	migratePath = "/v1/migrate/"
	orderHeader = "Weir-Order"
	maxCall     = 4 << 20
)

// invocation is what is asked of a node.
type invocation struct {
	Name  string         `json:"name,omitempty"` // describe
	Step  migrate.Step   `json:"step,omitempty"` // do
	Part  *migrate.Part  `json:"part,omitempty"` // receive
	Order *migrate.Order `json:"order,omitempty"`
}

// remoteNode is another machine as a migrate.Node: the target of a move.
type remoteNode struct {
	name    string
	address string
	sealed  string
	http    *http.Client
}

var _ migrate.Node = (*remoteNode)(nil)

// target is the node that a move goes to.
func (n *Node) target(order wire.Move, sealed []byte) migrate.Node {
	// A client for each move: a certificate may have been renewed since the last.
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return n.dialer(ctx).DialContext(ctx, network, address)
	}
	return &remoteNode{name: order.To, address: order.Address, sealed: base64.StdEncoding.EncodeToString(sealed), http: &http.Client{
		Transport: &http.Transport{DialContext: dial, TLSClientConfig: n.clientTLS(order.To), TLSHandshakeTimeout: 5 * time.Second,
			IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2, WriteBufferSize: 256 << 10, ReadBufferSize: 64 << 10}}}
}

func (n *Node) clientTLS(to string) *tls.Config { return n.identity().Client(pki.NodeName(to)) }

// Name implements migrate.Node.
func (r *remoteNode) Name() string { return r.name }

// Facts implements migrate.Node.
func (r *remoteNode) Facts(ctx context.Context) (f migrate.Facts, err error) {
	return f, r.call(ctx, "facts", invocation{}, nil, &f)
}

// Describe implements migrate.Node.
func (r *remoteNode) Describe(ctx context.Context, name string) (c migrate.Container, err error) {
	return c, r.call(ctx, "describe", invocation{Name: name}, nil, &c)
}

// Lacking implements migrate.Node.
func (r *remoteNode) Lacking(ctx context.Context, o migrate.Order) (list []migrate.Finding, err error) {
	return list, r.call(ctx, "lacking", invocation{Order: &o}, nil, &list)
}

// Do implements migrate.Node.
func (r *remoteNode) Do(ctx context.Context, step migrate.Step, o migrate.Order) (out migrate.Outcome, err error) {
	return out, r.call(ctx, "do", invocation{Step: step, Order: &o}, nil, &out)
}

// Send implements migrate.Node. Only a source sends, and that is never remote.
func (r *remoteNode) Send(context.Context, migrate.Part, migrate.Order, io.Writer) (migrate.Outcome, error) {
	return migrate.Outcome{}, errors.New("a target does not send")
}

// Receive implements migrate.Node.
func (r *remoteNode) Receive(ctx context.Context, p migrate.Part, o migrate.Order, from io.Reader) (out migrate.Outcome, err error) {
	return out, r.call(ctx, "receive", invocation{Part: &p, Order: &o}, from, &out)
}

// call asks the node. An answer that is no success is a *migrate.Error where the node
// says so; whatever else goes wrong leaves open what has happened there.
func (r *remoteNode) call(ctx context.Context, verb string, in invocation, stream io.Reader, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	var body io.Reader = bytes.NewReader(text)
	if stream != nil {
		length := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
		body = io.MultiReader(bytes.NewReader(length), body, stream)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+r.address+migratePath+verb, body)
	if err != nil {
		return err
	}
	req.Header.Set(orderHeader, r.sealed)
	resp, err := r.http.Do(req)
	if err != nil {
		return fmt.Errorf("node %s at %s: %w", r.name, r.address, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusConflict {
		e := new(migrate.Error)
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxCall)).Decode(e); err == nil {
			return e
		}
	}
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("node %s at %s: %s: %s", r.name, r.address, resp.Status, bytes.TrimSpace(why))
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxCall)).Decode(out); err != nil {
		return fmt.Errorf("node %s at %s: its answer cannot be read: %w", r.name, r.address, err)
	}
	return nil
}
