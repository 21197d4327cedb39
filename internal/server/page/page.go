// SPDX-License-Identifier: Apache-2.0

// Package page serves the page of a program (package web) beside its API: on a TCP port of
// its own, with the rights of each session, and with the routes by which a user of the host
// gets a link and ends sessions.
//
//	p := page.New(api, page.Options{Settings: page.Settings{Listen: "127.0.0.1:7480", Key: "/var/lib/weir/web.key"}, Program: web.Agent})
//	err := p.Listen()
//	err = p.Server().Serve(p.Listener())
package page

import (
	"context"
	"log/slog"
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

// Settings say where a page is served. The zero value means nowhere.
type Settings struct {
	Listen string        // host:port, "" = nowhere
	TLS    tlsfile.Files // without them it must be on the loopback
	Hosts  []string      // names by which browsers reach it, besides localhost and addresses
	Proxy  web.Proxy     // that knows the users; it needs TLS.CA
	Key    string        // file of the key that signs tokens
}

// Options are the settings of a page and what it belongs to.
type Options struct {
	Settings
	Program web.Program
	Socket  string // of the role change, for refusals
	Group   string // that may use the socket besides root, "" = none
	// ViewGroup may look, "" = none.
	ViewGroup string
}

// Page is the page of one API.
type Page struct {
	opts     Options
	api      *rest.API
	log      *slog.Logger
	sessions *web.Sessions // nil until Listen, and where there is no page
	listener net.Listener
}

// New registers the routes about the page with an API. Nothing is opened yet.
func New(a *rest.API, o Options) *Page {
	p := &Page{opts: o, api: a, log: a.Log}
	p.routes()
	return p
}

// Listen opens the page's port. Where none is set it does nothing.
func (p *Page) Listen() (err error) {
	if p.opts.Listen == "" {
		return nil
	}
	if p.sessions, err = web.NewSessions(p.opts.Key, p.opts.Program); err != nil {
		return err
	}
	p.listener, err = rest.ListenTCP(p.opts.Listen, p.opts.TLS, p.log, func(ln net.Listener) net.Listener { return web.NewCrowd(ln, p.log) })
	return err
}

// Listener returns the open port, nil if there is none. It is valid after Listen.
func (p *Page) Listener() net.Listener { return p.listener }

// Addr returns the TCP address of the page, "" if there is none. It is valid after Listen.
func (p *Page) Addr() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.Addr().String()
}

// Server returns the HTTP server of the page: the API with the role of the session.
func (p *Page) Server() *http.Server {
	p.log.Info("page on TCP", "address", p.Addr(), "tls", p.opts.TLS.Given(), "client_ca", p.opts.TLS.CA)
	reading := p.api.Reading(p.opts.Socket, p.opts.Group)
	srv := rest.Server(web.Handler(web.Options{
		Program: p.opts.Program, Sessions: p.sessions, Hosts: p.opts.Hosts, Proxy: p.opts.Proxy, Audit: p.api.Audit,
		API: func(w http.ResponseWriter, r *http.Request, session web.Session, who audit.Who) {
			r = r.WithContext(rest.WithAuthor(r.Context(), who))
			if session.Role == string(rest.RoleChange) {
				p.api.Mux.ServeHTTP(w, r)
				return
			}
			reading.ServeHTTP(w, r)
		},
	}), p.log)
	srv.ConnContext = web.ConnContext
	return srv
}

// url returns the address of the page for a browser.
func (p *Page) url() string {
	host, _, _ := net.SplitHostPort(p.opts.Listen) // Listen has checked it
	_, port, _ := net.SplitHostPort(p.Addr())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
		if len(p.opts.Hosts) > 0 {
			host = p.opts.Hosts[0]
		}
	}
	scheme := "http"
	if p.opts.TLS.Given() {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}

// endInput is the input of the route that ends all sessions.
type endInput struct {
	DryRun bool `query:"dry_run" doc:"only say what it would do"`
}

// routes registers the routes about the page.
func (p *Page) routes() {
	program := p.opts.Program
	off := &refusal.Error{Kind: refusal.Conflict, Field: program.Field, Msg: "the " + program.Name + " serves no page",
		Remedy: "write " + program.Example + " in weir.yaml; the " + program.Name + " reads it when it is started"}
	rest.Get(p.api, "/v1/web", "web-link", "A link to the "+program.Name+"'s page that works once, with the caller's role",
		func(ctx context.Context, _ *rest.None) (api.WebLink, error) {
			if p.sessions == nil {
				return api.WebLink{}, off
			}
			who := rest.Author(ctx)
			user, group := web.User{Role: string(rest.RoleChange), UID: who.UID, Name: who.User, Login: who.Login}, p.opts.Group
			if rest.Viewer(ctx) {
				user.Role, group = string(rest.RoleView), p.opts.ViewGroup
			}
			code, ends := p.sessions.Link(p.sessions.NewUser(user, group))
			return api.WebLink{URL: p.url() + "#" + code, Ends: ends.UTC(), Role: user.Role}, nil
		})
	rest.Register(p.api, huma.Operation{
		Method: http.MethodDelete, Path: "/v1/web", OperationID: "end-web-sessions",
		Summary: "End all sessions of the " + program.Name + "'s page, and links that were not opened yet",
	}, func(_ context.Context, in *endInput) (api.ChangeResult, error) {
		if p.sessions == nil {
			return api.ChangeResult{}, off
		}
		result := api.ChangeResult{DryRun: in.DryRun, Changes: []api.Change{{What: "end all sessions of the page", Why: "requested"}}}
		if in.DryRun {
			return result, nil
		}
		return result, p.sessions.EndAll()
	})
}
