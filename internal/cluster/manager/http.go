// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/base/crowd"
	"weir/internal/cluster/manager/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// peerKey finds the address of who asks, and the node that it is, in a context.
type peerKey struct{}

type remote struct {
	address string
	node    string // "" without a certificate
}

// The inputs of the routes for nodes.
type (
	joinInput  struct{ Body wire.JoinRequest }
	seekInput  struct{ Body placeBody }
	grantInput struct{ Body wire.Manifest }
)

// Subject implements rest.BodySubject.
func (in *seekInput) Subject() string { return in.Body.Container }

// Subject implements rest.BodySubject.
func (in *grantInput) Subject() string { return in.Body.Container }

// Subject implements rest.BodySubject.
func (in *joinInput) Subject() string { return in.Body.Node }

// nodesAPI returns the API for nodes: how they join, and what only a member may ask.
func (m *Manager) nodesAPI() *rest.API {
	h := rest.New("manager", "Weir manager, for nodes", "How a node joins a cluster, and what it asks of the manager.", m.log)
	h.Audit, h.Author = m.opts.Audit, nodeAuthor // without bodies: a token is a secret
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/join", OperationID: "join", Summary: "Become a member by a token"},
		func(ctx context.Context, in *joinInput) (wire.JoinAnswer, error) {
			answer, err := m.join(ctx, in.Body)
			if err != nil {
				m.strangers.failed("node", in.Body.Node, from(ctx), err)
			}
			return answer, err
		}, joinShape)
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/renew", OperationID: "renew", Summary: "Get a new certificate"},
		func(ctx context.Context, in *struct{ Body wire.SealedRenewRequest }) (wire.JoinAnswer, error) {
			answer, err := m.renew(in.Body)
			if no := refusal.Of(err); no != nil {
				m.strangers.failed("renewal", no.Value, from(ctx), err)
			}
			return answer, err
		}, renewShape)
	rest.Get(h, "/v1/members", "members", "The signed list of members, if it is newer than the one that the node has",
		func(_ context.Context, in *haveParam) (wire.MembersAnswer, error) { return m.members.List(in.Have) })
	rest.Get(h, "/v1/info", "info", "What a member has to know of its cluster",
		func(context.Context, *rest.None) (wire.Info, error) { return m.info(), nil })
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/places", OperationID: "seek", Summary: "Find a place for a min that a node had to refuse"},
		func(ctx context.Context, in *seekInput) (wire.PlaceAnswer, error) {
			node := from(ctx).node
			if in.Body.Node != node {
				m.sayRefused("request refused", node, "it asks for a place for "+in.Body.Node)
				return wire.PlaceAnswer{}, &refusal.Error{Kind: refusal.Denied, Field: "node", Value: in.Body.Node, Msg: "is not " + node}
			}
			r := wire.PlaceRequest{ID: in.Body.ID, Node: node, Container: in.Body.Container, MinBps: in.Body.MinBps, Refusal: in.Body.Refusal}
			return m.ask(r, in.Body.Change)
		})
	rest.Register(h, huma.Operation{Method: http.MethodPost, Path: "/v1/grants", OperationID: "grant", Summary: "Permit the target of a move to make the copy that is described"},
		func(ctx context.Context, in *grantInput) (wire.GrantAnswer, error) {
			return m.grant(from(ctx).node, in.Body, time.Now())
		})
	h.Mux.HandleFunc("/", rest.Fallback(h.Mux))
	return h
}

// nodesHandler serves nodes: the API and the image registry, to members as such. Who asks is
// decided before anything of a body is read.
func (m *Manager) nodesHandler() http.Handler {
	h := m.nodesAPI()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := remote{address: r.RemoteAddr}
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			node, cert, err := pki.Node(*r.TLS)
			defer m.serving.Use(r.Context(), node)()
			if err == nil {
				err = m.members.Admit(node, cert)
			}
			if err != nil {
				m.strangers.turnAway(w, r, who, "connect", &refusal.Error{Kind: refusal.Denied, Field: "certificate", Value: node, Msg: err.Error(), Remedy: membership.Rejoin})
				return
			}
			who.node = node
		}
		_, pattern := h.Mux.Handler(r)
		r = r.WithContext(context.WithValue(r.Context(), peerKey{}, who))
		switch {
		case who.node == "":
			address := crowd.ShareOf(r.RemoteAddr)
			if no := m.strangers.mayAsk(pattern, address); no != nil {
				m.strangers.turnAway(w, r, who, cmp.Or(h.Action(pattern), "connect"), no)
				return
			}
			m.strangers.serve(w, r, pattern, address, h.Mux)
		case strings.HasPrefix(r.URL.Path, imagesPath):
			m.serveImages(w, r, who)
		default:
			h.Mux.ServeHTTP(w, r)
		}
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

// serve answers nodes until ctx ends.
func (m *Manager) serve(ctx context.Context) {
	srv := rest.Server(m.nodesHandler(), m.log.With("component", "nodes"))
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return crowd.WithConn(pki.WithConnection(ctx, conn), conn)
	}
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
