// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/refusal"
	"weir/internal/server/rest"
	"weir/internal/tlsfile"
	"weir/internal/web"
)

// Web says where the page is served.
type Web struct {
	Listen string        // host:port, "" = nowhere
	TLS    tlsfile.Files // without them it must be on the loopback
	Hosts  []string      // names by which browsers reach it, besides localhost and addresses
	Proxy  web.Proxy     // that knows the users; it needs TLS.CA
	Key    string        // file of the key that signs tokens
}

// listenWeb opens the page's port.
func (s *Server) listenWeb() (err error) {
	if s.sessions, err = web.NewSessions(s.opts.Web.Key); err != nil {
		return err
	}
	s.web, err = s.listenTCP(s.opts.Web.Listen, s.opts.Web.TLS, func(ln net.Listener) net.Listener { return web.NewCrowd(ln, s.log) })
	return err
}

// WebAddr returns the TCP address of the page, "" if there is none. It is valid after
// Listen.
func (s *Server) WebAddr() string {
	if s.web == nil {
		return ""
	}
	return s.web.Addr().String()
}

// webServer returns the HTTP server of the page: the API with the role of the session.
func (s *Server) webServer() *http.Server {
	reading := s.rest.Reading(s.opts.Socket, s.opts.Group)
	srv := rest.Server(web.Handler(web.Options{
		Sessions: s.sessions, Hosts: s.opts.Web.Hosts, Proxy: s.opts.Web.Proxy, Audit: s.opts.Audit,
		API: func(w http.ResponseWriter, r *http.Request, session web.Session, who audit.Who) {
			r = r.WithContext(rest.WithAuthor(r.Context(), who))
			if session.Role == string(rest.RoleChange) {
				s.rest.Mux.ServeHTTP(w, r)
				return
			}
			reading.ServeHTTP(w, r)
		},
	}), s.log)
	srv.ConnContext = web.ConnContext
	return srv
}

// webURL returns the address of the page for a browser.
func (s *Server) webURL() string {
	host, _, _ := net.SplitHostPort(s.opts.Web.Listen) // Listen has checked it
	_, port, _ := net.SplitHostPort(s.WebAddr())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if len(s.opts.Web.Hosts) > 0 {
			host = s.opts.Web.Hosts[0]
		}
	}
	scheme := "http"
	if s.opts.Web.TLS.Given() {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}

// endInput is the input of the route that ends all sessions.
type endInput struct{ DryRunParam }

// webLinks registers the routes about the page.
func (s *Server) webLinks(h *rest.API) {
	off := &refusal.Error{Kind: refusal.Conflict, Field: "web", Msg: "the agent serves no page",
		Remedy: "write web: {listen: 127.0.0.1:7480} in weir.yaml and restart the agent"}
	rest.Get(h, "/v1/web", "web-link", "A link to the agent's page that works once, with the caller's role",
		func(ctx context.Context, _ *rest.None) (api.WebLink, error) {
			if s.sessions == nil {
				return api.WebLink{}, off
			}
			who := rest.Author(ctx)
			user := web.User{Role: string(rest.RoleChange), UID: who.UID, Name: who.User, Login: who.Login}
			if rest.Viewer(ctx) {
				user.Role = string(rest.RoleView)
			}
			code, ends := s.sessions.Link(user)
			return api.WebLink{URL: s.webURL() + "#" + code, Ends: ends.UTC(), Role: user.Role}, nil
		})
	rest.Register(h, huma.Operation{
		Method: http.MethodDelete, Path: "/v1/web", OperationID: "end-web-sessions",
		Summary: "End all sessions of the agent's page, and links that were not opened yet",
	}, func(_ context.Context, in *endInput) (api.ChangeResult, error) {
		if s.sessions == nil {
			return api.ChangeResult{}, off
		}
		result := api.ChangeResult{DryRun: in.DryRun, Changes: []api.Change{{What: "end all sessions of the page", Why: "requested"}}}
		if in.DryRun {
			return result, nil
		}
		return result, s.sessions.EndAll()
	})
}
