// SPDX-License-Identifier: Apache-2.0

// Package managerapi serves an api.Manager by HTTP and JSON, over the manager's socket, to
// people and programs: routes, the roles that they need, and what of a change the audit log
// has. It decides nothing.
//
//	GET  /v1/nodes                      Nodes          role view
//	POST /v1/moves?dry_run=true         Migrate        role change
//	POST /v1/moves/{id}/cancel          CancelMove     role change, audited as move ID, with its states
//
// What it does not do: serve nodes, which join and ask by certificates at an address of
// their own (package manager).
package managerapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/base/audit"
)

// Handler returns all of the API, without an audit log. It is for a socket that only users
// with all rights can open.
func Handler(m api.Manager, log *slog.Logger) http.Handler { return New(m, nil, log).Mux }

// New returns the API of a manager; changes are recorded in records, nil = nowhere.
func New(m api.Manager, records *audit.Log, log *slog.Logger) *rest.API {
	h := rest.New("manager", "Weir manager", "Nodes, containers, plans and moves of a cluster. Rates are wire bits per second, "+
		"sizes bytes, times UTC; egress is what leaves a container (upload).", log)
	rest.Get(h, "/v1/cluster", "cluster", "The manager and its settings",
		func(ctx context.Context, _ *rest.None) (api.Cluster, error) { return m.Cluster(ctx) })
	rest.Shared(h, "/v1/nodes", "list-nodes", "Every node with what it has and what of it is used", m.Nodes)
	rest.Shared(h, "/v1/containers", "list-containers", "Every container of the cluster", m.Containers)
	rest.Get(h, "/v1/moves", "list-moves", "Moves under way and those that ended lately, the newest first",
		func(ctx context.Context, _ *rest.None) ([]api.Move, error) { return m.Moves(ctx) })
	rest.Get(h, "/v1/moves/{id}", "get-move", "One move with its steps",
		func(ctx context.Context, in *idParam) (api.Move, error) { return m.Move(ctx, in.ID) })
	rest.Get(h, "/v1/tokens", "list-tokens", "Tokens by which nodes may join",
		func(ctx context.Context, _ *rest.None) ([]api.Token, error) { return m.Tokens(ctx) })
	h.Audit, h.Bodies = records, true
	h.ServeAudit()
	changes(h, m)
	h.Mux.HandleFunc("/", rest.Fallback(h.Mux))
	return h
}

// The inputs of the routes.
type (
	idParam struct {
		ID string `path:"id" maxLength:"100" doc:"id, or a prefix of it"`
	}
	nodeParam struct {
		Name string `path:"name" maxLength:"63" doc:"name of a node"`
	}
	rebalanceInput struct {
		DryRun bool `query:"dry_run" doc:"plan, and move nothing"`
		Body   api.PlanRequest
	}
	moveInput struct {
		DryRun bool `query:"dry_run" doc:"only look what would hinder it"`
		Body   api.MoveRequest
	}
	cancelInput struct {
		ID     string `path:"id" maxLength:"100" doc:"id, or a prefix of it"` // huma sees nothing in an embedded struct that is not exported
		DryRun bool   `query:"dry_run" doc:"only say what it would do"`
	}
	tokenInput struct{ Body api.TokenRequest }
)

// Subject implements rest.BodySubject.
func (in *moveInput) Subject() string { return in.Body.Container }

// Subject implements rest.BodySubject.
func (in *tokenInput) Subject() string { return in.Body.Node }

// cluster is the object of changes that are about all of it, in the audit log.
const cluster = "cluster"

// noted are fields as they were before or after a change, for the audit log.
type noted map[string]any

// ofToken returns what the audit log says of a token: no secret.
func ofToken(t api.Token) noted {
	return noted{"id": t.ID, "node": t.Node, "uses": t.Uses, "expires": t.Expires}
}

// changes are the routes that change something.
func changes(h *rest.API, m api.Manager) {
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/rebalance", OperationID: "rebalance",
		Summary: "Plan which containers should move, and order the moves unless it is a dry run"},
		func(ctx context.Context, in *rebalanceInput) (api.ClusterPlan, error) {
			if in.DryRun {
				return m.Plan(ctx, in.Body)
			}
			plan, err := m.Rebalance(ctx, in.Body)
			ids := []string{}
			for _, mv := range plan.Moves {
				ids = append(ids, mv.ID)
			}
			audit.Note(ctx, cluster, nil, noted{"moves": ids})
			return plan, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/moves", OperationID: "migrate", Summary: "Move one container"},
		func(ctx context.Context, in *moveInput) (api.Move, error) {
			mv, err := m.Migrate(ctx, in.Body, in.DryRun)
			audit.Note(ctx, "", nil, noted{"move": mv.ID, "state": mv.State, "from": mv.From, "to": mv.To})
			return mv, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/moves/{id}/cancel", OperationID: "cancel-move", Summary: "Cancel a move",
		Description: "One that waits ends at once; one under way goes back to its source, unless its copy was confirmed before."},
		func(ctx context.Context, in *cancelInput) (api.Cancellation, error) {
			before, _ := m.Move(ctx, in.ID)
			c, err := m.CancelMove(ctx, in.ID, in.DryRun)
			audit.Note(ctx, before.ID, noted{"state": before.State}, noted{"state": c.Move.State, "cancel": c.Effect})
			return c, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/snapshot", OperationID: "snapshot", Summary: "Take a snapshot of the manager's state",
		Description: "It holds the key of the authority. Images and what waits on the bus are not in it."},
		func(ctx context.Context, _ *rest.None) (api.Snapshot, error) {
			s, err := m.Snapshot(ctx)
			audit.Note(ctx, cluster, nil, noted{"bytes": len(s.Data), "nodes": s.Nodes})
			return s, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodDelete, Path: "/v1/nodes/{name}", OperationID: "remove-node",
		Summary: "Throw a node out of the cluster", Description: "Its certificate counts no more. What runs there goes on."},
		func(ctx context.Context, in *nodeParam) (api.Node, error) {
			n, err := m.RemoveNode(ctx, in.Name)
			audit.Note(ctx, "", noted{"state": n.State, "joined": n.Joined, "address": n.Address}, nil)
			return n, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/tokens", OperationID: "make-token", Summary: "Make a token by which nodes can join"},
		func(ctx context.Context, in *tokenInput) (api.Token, error) {
			t, err := m.NewToken(ctx, in.Body)
			audit.Note(ctx, cmp.Or(in.Body.Node, t.ID), nil, ofToken(t))
			return t, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodDelete, Path: "/v1/tokens/{id}", OperationID: "revoke-token",
		Summary: "Revoke a token", Description: "Nodes that joined by it stay."},
		func(ctx context.Context, in *idParam) (api.Token, error) {
			t, err := m.RevokeToken(ctx, in.ID)
			audit.Note(ctx, "", ofToken(t), nil)
			return t, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/authority/rotate", OperationID: "rotate-authority",
		Summary: "Replace the authority that signs the cluster's certificates", Description: "Nodes get certificates of the new one by themselves. The former one counts until all have."},
		func(ctx context.Context, _ *rest.None) (api.Authority, error) {
			before, _ := m.Cluster(ctx)
			a, err := m.RotateAuthority(ctx)
			audit.Note(ctx, cluster, noted{"authority": before.Authority.Hash}, noted{"authority": a.Hash})
			return a, err
		})
}
