// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"weir/internal/base/audit"
)

// DefaultManagerSocket is the path where a manager listens by default.
const DefaultManagerSocket = "/run/weir-manager/manager.sock"

// ErrNoManager is wrapped by the error of a manager that cannot be reached.
var ErrNoManager = errors.New("no manager")

// ManagerClient talks to a manager over its unix socket, as Client does to an agent.
// It implements Manager.
type ManagerClient struct{ c *Client }

var _ Manager = ManagerClient{}

// NewManagerClient makes a client; it connects with the first request.
func NewManagerClient(socket string) ManagerClient {
	c := NewClient(socket)
	c.who, c.absent, c.unit = "manager", ErrNoManager, "weir-manager"
	return ManagerClient{c}
}

// Cluster implements Manager.
func (m ManagerClient) Cluster(ctx context.Context) (Cluster, error) {
	return call[Cluster](ctx, m.c, http.MethodGet, "/v1/cluster", nil)
}

// Nodes implements Manager.
func (m ManagerClient) Nodes(ctx context.Context) ([]Node, error) {
	return call[[]Node](ctx, m.c, http.MethodGet, "/v1/nodes", nil)
}

// RemoveNode implements Manager.
func (m ManagerClient) RemoveNode(ctx context.Context, name string) (Node, error) {
	return call[Node](ctx, m.c, http.MethodDelete, "/v1/nodes/"+url.PathEscape(name), nil)
}

// Containers implements Manager.
func (m ManagerClient) Containers(ctx context.Context) ([]ClusterContainer, error) {
	return call[[]ClusterContainer](ctx, m.c, http.MethodGet, "/v1/containers", nil)
}

// Plan implements Manager.
func (m ManagerClient) Plan(ctx context.Context, req PlanRequest) (ClusterPlan, error) {
	return call[ClusterPlan](ctx, m.c, http.MethodPost, "/v1/rebalance"+dryRunQuery(true), req)
}

// Rebalance implements Manager.
func (m ManagerClient) Rebalance(ctx context.Context, req PlanRequest) (ClusterPlan, error) {
	return call[ClusterPlan](ctx, m.c, http.MethodPost, "/v1/rebalance", req)
}

// Moves implements Manager.
func (m ManagerClient) Moves(ctx context.Context) ([]Move, error) {
	return call[[]Move](ctx, m.c, http.MethodGet, "/v1/moves", nil)
}

// Move implements Manager.
func (m ManagerClient) Move(ctx context.Context, id string) (Move, error) {
	return call[Move](ctx, m.c, http.MethodGet, "/v1/moves/"+url.PathEscape(id), nil)
}

// Migrate implements Manager.
func (m ManagerClient) Migrate(ctx context.Context, req MoveRequest, dryRun bool) (Move, error) {
	return call[Move](ctx, m.c, http.MethodPost, "/v1/moves"+dryRunQuery(dryRun), req)
}

// CancelMove implements Manager.
func (m ManagerClient) CancelMove(ctx context.Context, id string, dryRun bool) (Cancellation, error) {
	return call[Cancellation](ctx, m.c, http.MethodPost, "/v1/moves/"+url.PathEscape(id)+"/cancel"+dryRunQuery(dryRun), nil)
}

// Audit reads the manager's audit log, the oldest entry first.
func (m ManagerClient) Audit(ctx context.Context, q audit.Query) ([]audit.Entry, error) {
	return m.c.Audit(ctx, q)
}

// Web asks for a link to the manager's page.
func (m ManagerClient) Web(ctx context.Context) (WebLink, error) { return m.c.Web(ctx) }

// EndWeb ends all sessions of the manager's page.
func (m ManagerClient) EndWeb(ctx context.Context, dryRun bool) (ChangeResult, error) {
	return m.c.EndWeb(ctx, dryRun)
}

// NewToken implements Manager.
func (m ManagerClient) NewToken(ctx context.Context, req TokenRequest) (Token, error) {
	return call[Token](ctx, m.c, http.MethodPost, "/v1/tokens", req)
}

// Tokens implements Manager.
func (m ManagerClient) Tokens(ctx context.Context) ([]Token, error) {
	return call[[]Token](ctx, m.c, http.MethodGet, "/v1/tokens", nil)
}

// Snapshot implements Manager.
func (m ManagerClient) Snapshot(ctx context.Context) (Snapshot, error) {
	return call[Snapshot](ctx, m.c, http.MethodPost, "/v1/snapshot", nil)
}

// RevokeToken implements Manager.
func (m ManagerClient) RevokeToken(ctx context.Context, id string) (Token, error) {
	return call[Token](ctx, m.c, http.MethodDelete, "/v1/tokens/"+url.PathEscape(id), nil)
}

// RotateAuthority implements Manager.
func (m ManagerClient) RotateAuthority(ctx context.Context) (Authority, error) {
	return call[Authority](ctx, m.c, http.MethodPost, "/v1/authority/rotate", nil)
}
