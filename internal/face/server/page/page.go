// SPDX-License-Identifier: Apache-2.0

// Package page serves the page of a program (package web) beside its API: on a TCP port of
// its own, with the rights of each session, and with the routes by which a user of the host
// gets a link and ends sessions.
//
//	p := page.New(api, page.Options{Settings: page.Config{Listen: []string{"127.0.0.1:7480"}, Key: "/var/lib/weir/web.key"}, Program: web.Agent})
//	p.Listen()
//	srv := p.Serve(ctx)
package page

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/base/audit"
	"weir/internal/base/tlsfile"
	"weir/internal/core/event"
	"weir/internal/core/refusal"
	"weir/internal/face/web"
)

// Config says where a page is served. The zero value means nowhere.
type Config struct {
	Listen []string      // host:port, none = nowhere
	TLS    tlsfile.Files // without them they must be on the loopback
	Hosts  []string      // names by which browsers reach it, besides localhost and addresses
	Proxy  web.Proxy     // that knows the users; it needs TLS.CA
	Key    string        // file of the key that signs tokens
}

// Options are the settings of a page and what it belongs to.
type Options struct {
	Config
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
	ports    *rest.TCPAddresses
	sessions atomic.Pointer[web.Sessions] // nil until there is a key for their tokens

	mu       sync.Mutex
	unlocked error // why there is no such key
}

// New registers the routes about the page with an API. Nothing is opened yet.
func New(a *rest.API, o Options) *Page {
	p := &Page{opts: o, api: a, log: a.Log}
	p.ports = rest.NewPorts("the page", o.Listen, o.TLS, a.Log, func(ln net.Listener) net.Listener { return web.NewCrowd(ln, p.log) })
	p.routes()
	return p
}

// Listen opens what it can of the page's ports. Where none is set it does nothing.
func (p *Page) Listen() {
	if len(p.opts.Listen) > 0 && p.unlock() {
		p.ports.Open()
	}
}

// unlock makes sessions possible, and reports whether they are.
func (p *Page) unlock() bool {
	if p.sessions.Load() != nil {
		return true
	}
	sessions, err := web.NewSessions(p.opts.Key, p.opts.Program)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if p.unlocked == nil {
			p.log.Warn("the page is not served, trying again", "err", err)
		}
		p.unlocked = err
		return false
	}
	p.unlocked = nil
	p.sessions.Store(sessions)
	return true
}

// Addr returns the first TCP address of the page that is served, "" if none is. It is valid after
// Listen.
func (p *Page) Addr() string { return p.ports.Addr() }

// Close closes the ports of a page that does not serve.
func (p *Page) Close() error { return p.ports.Close() }

// Look adds what keeps the page from being served to what problems and events follow from.
func (p *Page) Look(s *event.Sight) {
	p.mu.Lock()
	err := p.unlocked
	p.mu.Unlock()
	if err != nil {
		s.Report(event.NotServed, event.Condition{Subject: event.Subject{Type: event.Address, Name: p.opts.Listen[0]},
			Text: "the page is not served here: " + err.Error(), Remedy: "see to " + p.opts.Key + "; the agent tries again every second"})
	}
	p.ports.Look(s)
}

// Handler returns the page and the API with the role of the session. It is valid once there are
// sessions.
func (p *Page) Handler() http.Handler {
	reading := p.api.Reading(p.opts.Socket, p.opts.Group)
	return web.Handler(web.Options{
		Program: p.opts.Program, Sessions: p.sessions.Load(), Hosts: p.opts.Hosts, Proxy: p.opts.Proxy, Audit: p.api.Audit,
		API: func(w http.ResponseWriter, r *http.Request, session web.Session, who audit.Who) {
			r = r.WithContext(rest.WithAuthor(r.Context(), who))
			if session.Role == string(rest.RoleChange) {
				p.api.Mux.ServeHTTP(w, r)
				return
			}
			reading.ServeHTTP(w, r)
		},
	})
}

// Serve serves the page until ctx ends. It returns at once, with the server, which has to be shut
// down.
func (p *Page) Serve(ctx context.Context) *http.Server {
	var handler http.Handler // written before the first port is served
	srv := rest.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }), p.log)
	srv.ConnContext = web.ConnContext
	if len(p.opts.Listen) == 0 {
		return srv
	}
	go func() {
		for !p.unlock() {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
		handler = p.Handler()
		p.ports.Serve(ctx, srv)
	}()
	return srv
}

// url returns the address of the page for a browser.
func (p *Page) url() string {
	asked, served := p.ports.First()
	host, _, _ := net.SplitHostPort(asked) // the configuration has checked it
	_, port, _ := net.SplitHostPort(served)
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

// waiting refuses a link to a page that is not served yet.
func (p *Page) waiting() error {
	p.mu.Lock()
	why := p.unlocked
	p.mu.Unlock()
	if why = cmp.Or(why, p.ports.Wrong()); why == nil {
		why = errors.New("its address is being looked up")
	}
	return &refusal.Error{Kind: refusal.Conflict, Field: p.opts.Program.Field, Msg: "the page is not served yet: " + why.Error(), Remedy: "the " + p.opts.Program.Name + " tries again every second"}
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
			sessions := p.sessions.Load()
			if len(p.opts.Listen) == 0 {
				return api.WebLink{}, off
			}
			if sessions == nil || p.Addr() == "" {
				return api.WebLink{}, p.waiting()
			}
			who := rest.Author(ctx)
			user, group := web.User{Role: string(rest.RoleChange), UID: who.UID, Name: who.User, Login: who.Login}, p.opts.Group
			if rest.Viewer(ctx) {
				user.Role, group = string(rest.RoleView), p.opts.ViewGroup
			}
			code, ends := sessions.Link(sessions.NewUser(user, group))
			return api.WebLink{URL: p.url() + "#" + code, Ends: ends.UTC(), Role: user.Role}, nil
		})
	rest.Register(p.api, huma.Operation{
		Method: http.MethodDelete, Path: "/v1/web", OperationID: "end-web-sessions",
		Summary: "End all sessions of the " + program.Name + "'s page, and links that were not opened yet",
	}, func(_ context.Context, in *endInput) (api.ChangeResult, error) {
		sessions := p.sessions.Load()
		if len(p.opts.Listen) == 0 {
			return api.ChangeResult{}, off
		}
		if sessions == nil {
			return api.ChangeResult{}, p.waiting()
		}
		result := api.ChangeResult{DryRun: in.DryRun, Changes: []api.Edit{{What: "end all sessions of the page", Why: "requested"}}}
		if in.DryRun {
			return result, nil
		}
		return result, sessions.EndAll()
	})
}
