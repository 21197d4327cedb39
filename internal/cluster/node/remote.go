// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/wire"
)

// orderHeader is the header of a call of another node's (package remote) that carries the
// manager's sealed order.
const orderHeader = "Weir-Order"

// remoteNode is another machine as a migrate.Node: the target of a move.
type remoteNode struct {
	name string
	peer remote.Peer
}

var _ migrate.Node = (*remoteNode)(nil)

// target is the node that a move goes to.
func (n *Node) target(order wire.Move, sealed []byte) migrate.Node {
	// A client for each move: a certificate may have been renewed since the last.
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return n.dialer(ctx).DialContext(ctx, network, address)
	}
	header := http.Header{}
	header.Set(orderHeader, base64.StdEncoding.EncodeToString(sealed))
	return &remoteNode{name: order.To, peer: remote.Peer{Name: fmt.Sprintf("node %s at %s", order.To, order.Address),
		URL: "https://" + order.Address, Header: header, HTTP: &http.Client{
			Transport: &http.Transport{DialContext: dial, TLSClientConfig: n.clientTLS(order.To), TLSHandshakeTimeout: 5 * time.Second,
				IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2, WriteBufferSize: 256 << 10, ReadBufferSize: 64 << 10}}}}
}

// Name implements migrate.Node.
func (r *remoteNode) Name() string { return r.name }

// Facts implements migrate.Node.
func (r *remoteNode) Facts(ctx context.Context) (f migrate.Facts, err error) {
	return f, r.peer.Ask(ctx, remote.Facts, remote.Call{}, nil, &f)
}

// Describe implements migrate.Node.
func (r *remoteNode) Describe(ctx context.Context, name string) (c migrate.Container, err error) {
	return c, r.peer.Ask(ctx, remote.Describe, remote.Call{Name: name}, nil, &c)
}

// Lacking implements migrate.Node.
func (r *remoteNode) Lacking(ctx context.Context, o migrate.Order) (list []migrate.Finding, err error) {
	return list, r.peer.Ask(ctx, remote.Lacking, remote.Call{Order: &o}, nil, &list)
}

// Do implements migrate.Node.
func (r *remoteNode) Do(ctx context.Context, step migrate.Step, o migrate.Order) (out migrate.Outcome, err error) {
	return out, r.peer.Ask(ctx, remote.Do, remote.Call{Step: step, Order: &o}, nil, &out)
}

// Send implements migrate.Node. Only a source sends, and that is never remote.
func (r *remoteNode) Send(context.Context, migrate.Part, migrate.Order, io.Writer) (migrate.Outcome, error) {
	return migrate.Outcome{}, errors.New("a target does not send")
}

// Receive implements migrate.Node.
func (r *remoteNode) Receive(ctx context.Context, p migrate.Part, o migrate.Order, from io.Reader) (out migrate.Outcome, err error) {
	return out, r.peer.Ask(ctx, remote.Receive, remote.Call{Part: &p, Order: &o}, from, &out)
}
