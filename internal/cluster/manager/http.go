// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/cluster/manager/membership"
	"weir/internal/cluster/pki"
	"weir/internal/cluster/wire"
	"weir/internal/refusal"
	"weir/internal/server/rest"
)

// Handler returns all of the API for people and programs. It is for a socket that
// only users with all rights can open.
func Handler(m api.Manager, log *slog.Logger) http.Handler { return API(m, nil, log).Mux }

// API returns the API for people and programs; changes are recorded in records.
func API(m api.Manager, records *audit.Log, log *slog.Logger) *rest.API {
	h := rest.New("manager", "Weir manager", "Nodes, containers, plans and moves of a cluster. Rates are wire bits per second, "+
		"sizes bytes, times UTC; egress is what leaves a container (upload).", log)
	rest.Get(h, "/v1/cluster", "cluster", "The manager and its settings",
		func(ctx context.Context, _ *rest.None) (api.Cluster, error) { return m.Cluster(ctx) })
	rest.Get(h, "/v1/nodes", "list-nodes", "Every node with what it has and what of it is used",
		func(ctx context.Context, _ *rest.None) ([]api.Node, error) { return m.Nodes(ctx) })
	rest.Get(h, "/v1/containers", "list-containers", "Every container of the cluster",
		func(ctx context.Context, _ *rest.None) ([]api.ClusterContainer, error) { return m.Containers(ctx) })
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
	joinInput  struct{ Body wire.JoinRequest }
	seekInput  struct{ Body placeBody }
	grantInput struct{ Body wire.Manifest }
)

// Subject implements rest.Subject.
func (in *moveInput) Subject() string { return in.Body.Container }

// Subject implements rest.Subject.
func (in *seekInput) Subject() string { return in.Body.Container }

// Subject implements rest.Subject.
func (in *grantInput) Subject() string { return in.Body.Container }

// Subject implements rest.Subject.
func (in *joinInput) Subject() string { return in.Body.Node }

// Subject implements rest.Subject.
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

// peerKey finds the address of who asks, and the node that it is, in a context.
type peerKey struct{}

type remote struct {
	address string
	node    string // "" without a certificate
}

// nodesAPI returns the API for nodes: how they join, and what only a member may ask.
func (m *Manager) nodesAPI() *rest.API {
	h := rest.New("manager", "Weir manager, for nodes", "How a node joins a cluster, and what it asks of the manager.", m.log)
	h.Audit, h.Author = m.opts.Audit, nodeAuthor // without bodies: a token is a secret
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/join", OperationID: "join", Summary: "Become a member by a token"},
		func(ctx context.Context, in *joinInput) (wire.JoinAnswer, error) {
			answer, err := m.join(ctx, in.Body)
			if err != nil {
				m.refused.Add(1)
				m.log.Warn("node refused", "node", in.Body.Node, "peer", from(ctx).address, "err", err)
			}
			return answer, err
		})
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/renew", OperationID: "renew", Summary: "Get a new certificate"},
		func(_ context.Context, in *struct{ Body wire.SealedRenewRequest }) (wire.JoinAnswer, error) {
			return m.renew(in.Body)
		})
	rest.Get(h, "/v1/members", "members", "The signed list of members, if it is newer than the one that the node has",
		onlyMembers(m, func(_ context.Context, _ string, in *haveParam) (wire.MembersAnswer, error) {
			return m.members.List(in.Have)
		}))
	rest.Get(h, "/v1/info", "info", "What a member has to know of its cluster",
		onlyMembers(m, func(context.Context, string, *rest.None) (wire.Info, error) { return m.info(), nil }))
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/places", OperationID: "seek", Summary: "Find a place for a min that a node had to refuse"},
		onlyMembers(m, func(_ context.Context, node string, in *seekInput) (wire.PlaceAnswer, error) {
			if in.Body.Node != node {
				m.refused.Add(1)
				m.log.Warn("request refused", "node", node, "err", "it asks for a place for "+in.Body.Node)
				return wire.PlaceAnswer{}, &refusal.Error{Kind: refusal.Denied, Field: "node", Value: in.Body.Node, Msg: "is not " + node}
			}
			r := wire.PlaceRequest{ID: in.Body.ID, Node: node, Container: in.Body.Container, MinBps: in.Body.MinBps, Refusal: in.Body.Refusal}
			return m.ask(r, in.Body.Change)
		}))
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/grants", OperationID: "grant", Summary: "Permit the target of a move to make the copy that is described"},
		onlyMembers(m, func(_ context.Context, node string, in *grantInput) (wire.GrantAnswer, error) {
			return m.grant(node, in.Body, time.Now())
		}))
	h.Mux.HandleFunc("/", rest.Fallback(h.Mux))
	return h
}

// nodesHandler serves nodes: the API and the image registry, to members as such.
func (m *Manager) nodesHandler() http.Handler {
	h := m.nodesAPI()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := remote{address: r.RemoteAddr}
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			node, cert, err := pki.Node(*r.TLS)
			defer m.serving.Use(r.Context(), node)()
			if err == nil {
				err = m.admits(node, cert)
			}
			if err != nil {
				m.log.Warn("request refused", "path", r.URL.Path, "node", node, "peer", r.RemoteAddr, "err", err)
				m.opts.Audit.Append(audit.Entry{Who: who.author(), Action: "connect", Object: node, Result: audit.Refused, Reason: err.Error()})
				rest.WriteRefusal(w, &refusal.Error{Kind: refusal.Denied, Field: "certificate", Value: node, Msg: err.Error(),
					Remedy: membership.Rejoin})
				return
			}
			who.node = node
		}
		if strings.HasPrefix(r.URL.Path, imagesPath) {
			m.serveImages(w, r, who)
			return
		}
		h.Mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), peerKey{}, who)))
	})
}

// haveParam is the query of /v1/members.
type haveParam struct {
	Have uint64 `query:"have" doc:"sequence of the list that the node has, 0 = none"`
}

// placeBody is a wire.PlaceRequest with its change spelled out for the document.
type placeBody struct {
	Node      string           `json:"node"`
	ID        string           `json:"id"`
	Container string           `json:"container"`
	MinBps    uint64           `json:"min_bps"`
	Change    api.PolicyChange `json:"change"`
	Refusal   string           `json:"refusal"`
}

func from(ctx context.Context) remote {
	who, _ := ctx.Value(peerKey{}).(remote)
	return who
}

// onlyMembers makes a handler that only members reach.
func onlyMembers[I, O any](m *Manager, call func(ctx context.Context, node string, in *I) (O, error)) func(context.Context, *I) (O, error) {
	return func(ctx context.Context, in *I) (O, error) {
		who := from(ctx)
		if who.node == "" {
			var none O
			m.refused.Add(1)
			m.log.Warn("request refused", "peer", who.address, "err", "no certificate of this cluster was shown")
			return none, &refusal.Error{Kind: refusal.Denied, Field: "certificate", Msg: "none of this cluster was shown", Remedy: "join first, with a token"}
		}
		return call(ctx, who.node, in)
	}
}

// serve answers nodes until ctx ends.
func (m *Manager) serve(ctx context.Context) {
	srv := rest.Server(m.nodesHandler(), m.log.With("component", "nodes"))
	srv.ConnContext = pki.WithConnection
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(m.listener) }()
	select {
	case <-ctx.Done():
		if err := rest.Shutdown(srv); err != nil {
			m.log.Warn("nodes' requests", "err", err)
		}
	case err := <-ended:
		m.log.Error("nodes cannot reach the manager any more", "err", err)
	}
}
