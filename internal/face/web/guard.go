// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/base/crowd"
	"weir/internal/core/refusal"
)

// Options say what a page is made of.
type Options struct {
	Program  Program
	Sessions *Sessions
	// Hosts are the names by which browsers reach the page, besides localhost and the
	// address that they connect to.
	Hosts []string
	// Proxy says whom a proxy may name; the zero value means that there is none.
	Proxy Proxy
	// API serves a request to the API on behalf of a session; who is its author.
	API func(w http.ResponseWriter, r *http.Request, s Session, who audit.Who)
	// Audit has a line for each refusal; nil = none.
	Audit *audit.Log
}

// maxCode bounds the body of POST /session, in bytes.
const maxCode = 1 << 10

// headers go with every answer. The page has no style or script but its files, sends
// requests to its own origin only, and is not shown inside of another page.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
	"X-Frame-Options":              "DENY",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
}

// Handler returns the page: its files, POST /session, and the API under /v1 for requests
// with a token.
func Handler(o Options) http.Handler {
	files := staticFiles(o.Program.index)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /session", o.open)
	mux.HandleFunc("GET /session", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && !o.Proxy.speaks(r) {
			w.WriteHeader(http.StatusNoContent) // no user is signed in, which the page wants to know
			return
		}
		o.within(func(w http.ResponseWriter, _ *http.Request, s Session) { answer(w, s) })(w, r)
	})
	for pattern, no := range o.Program.apart {
		mux.HandleFunc(pattern, o.within(func(w http.ResponseWriter, r *http.Request, s Session) {
			err := &refusal.Error{Kind: refusal.Denied, Msg: no.why, Remedy: no.remedy}
			o.record(s.author(r), r, err)
			api.WriteProblem(w, api.ProblemOf(err))
		}))
	}
	mux.HandleFunc("/v1/", o.within(func(w http.ResponseWriter, r *http.Request, s Session) {
		o.API(w, r, s, s.author(r))
	}))
	mux.Handle("/", files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		w.Header().Set("Cache-Control", "no-store")
		if no := o.stray(r); no != nil {
			o.refuse(w, r, no)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// stray returns the refusal of a request that the page itself does not make: by another
// name of this host, which a hostile name server may have pointed here, or from a page of
// another origin.
func (o Options) stray(r *http.Request) *refusal.Error {
	if !o.known(r) {
		return &refusal.Error{Kind: refusal.Denied, Field: "Host", Value: r.Host, Msg: "the page is not reached by this name",
			Remedy: "write hosts: [NAME] under " + o.Program.Field + " in weir.yaml and restart the " + o.Program.Name}
	}
	foreign := &refusal.Error{Kind: refusal.Denied, Field: "Origin", Msg: "the request comes from a page of another origin", Remedy: "open the page itself"}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host && origin != "https://"+r.Host {
		return foreign
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	}
	// A link on another page may lead here; that page learns nothing by it.
	if r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		return nil
	}
	return foreign
}

// known reports whether the request's Host is a name of the page. Ports do not count: a
// tunnel may have another.
func (o Options) known(r *http.Request) bool {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" || slices.Contains(o.Hosts, name) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return err == nil && (ip.IsLoopback() || ok && ip.Unmap() == local.AddrPort().Addr().Unmap())
}

// within returns a handler that calls serve for requests with a token.
func (o Options) within(serve func(http.ResponseWriter, *http.Request, Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		session, ended, no := o.session(r)
		if no != nil {
			o.unknown(w, r, no)
			return
		}
		if crowd.Admit(r.Context(), session.class(), session.party()) != nil {
			o.refuse(w, r, &refusal.Error{Kind: refusal.Busy, Msg: "too many connections with a token are open", Remedy: "close a page"})
			return
		}
		ctx, done := o.Sessions.during(r.Context(), session, ended)
		defer done()
		serve(w, r.WithContext(ctx), session)
	}
}

// session returns who makes a request, by its token or by the proxy's word, and what is closed
// when all sessions end. A proxy's users have none.
func (o Options) session(r *http.Request) (Session, <-chan struct{}, *refusal.Error) {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return o.Sessions.check(token)
	}
	if o.Proxy.speaks(r) {
		session, no := o.Proxy.session(r, o.Program)
		return session, nil, no
	}
	return Session{}, nil, o.Program.denied("the request has no token")
}

// open exchanges the code of a link for a token.
func (o Options) open(w http.ResponseWriter, r *http.Request) {
	var in struct{ Code string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCode)).Decode(&in); err != nil {
		o.unknown(w, r, o.Program.denied("the request has no code"))
		return
	}
	token, session, no := o.Sessions.Open(in.Code)
	if no != nil {
		o.unknown(w, r, no)
		return
	}
	o.Audit.Append(audit.Entry{Who: session.author(r),
		Action: "open-page", Result: audit.Done, Reason: "a session as " + session.Role + " until " + session.Ends.Format(time.RFC3339)})
	answer(w, struct {
		Token string `json:"token"`
		Session
	}{token, session})
}

// unknown refuses a request whose author is not known, with status 401: a new link helps.
func (o Options) unknown(w http.ResponseWriter, r *http.Request, no *refusal.Error) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	o.record(stranger(r), r, no)
	unread(w, r)
	api.WriteProblem(w, api.ProblemOf(no).WithStatus(http.StatusUnauthorized))
}

// unread has the connection end with the answer to a request whose body was not read, rather
// than net/http read what comes of it.
func unread(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}

// refuse refuses a request.
func (o Options) refuse(w http.ResponseWriter, r *http.Request, no *refusal.Error) {
	o.record(stranger(r), r, no)
	unread(w, r)
	api.WriteProblem(w, api.ProblemOf(no))
}

// record notes a refusal in the audit log, which counts those that are like it.
func (o Options) record(who audit.Who, r *http.Request, no *refusal.Error) {
	o.Audit.Append(audit.Entry{Who: who, Action: "open-page", Object: r.URL.Path, Result: audit.Refused, Reason: no.Msg})
}

// stranger returns the author of a request without a session.
func stranger(r *http.Request) audit.Who {
	host, _, _ := net.SplitHostPort(r.RemoteAddr) // always HOST:PORT; another port is not another author
	return audit.Who{Via: audit.ViaWeb, Address: host}
}

// author returns the author of a request of the session.
func (s Session) author(r *http.Request) audit.Who {
	return audit.Who{Via: audit.ViaWeb, UID: s.UID, User: s.Name, Login: s.Login, Address: r.RemoteAddr}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// A client that has gone away cannot be told so.
	_ = json.NewEncoder(w).Encode(v)
}
