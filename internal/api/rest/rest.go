// SPDX-License-Identifier: Apache-2.0

// Package rest has the common parts of Weir's HTTP interfaces: JSON routes with an
// OpenAPI document made from Go types, errors as problem details (RFC 9457), a unix
// socket that only one process can have, a second one for callers who may only look,
// limits for slow clients, and the author of each request.
package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"weir/internal/base/audit"
	"weir/internal/base/crowd"
	"weir/internal/base/version"
	"weir/internal/core/bound"
)

// Limits of a server. A client that is slower than these is cut off, so that no
// client can make a process hold memory or goroutines for long.
const (
	RequestTimeout = 15 * time.Second // to read a request, and to write an answer
	// ShutdownTimeout bounds the time for requests under way.
	ShutdownTimeout = 3 * time.Second
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes = bound.Body
)

// API is one interface while its routes are registered.
type API struct {
	huma.API
	Mux *http.ServeMux
	Who string // serves it: agent or manager
	Log *slog.Logger

	// Audit records each request that changes something; with nil no record is kept.
	Audit *audit.Log
	// Author returns the author of a request.
	Author func(context.Context) audit.Who
	// Bodies are recorded too. Not where they may hold secrets.
	Bodies bool

	routes    map[string]route // by the mux's pattern
	refused   refusals
	strangers crowd.Lines   // of the log, about requests from the network
	changes   atomic.Uint64 // that were asked
}

// None is the input of a route that has none.
type None struct{}

// reply is a body with status 200.
type reply[T any] struct{ Body T }

// New begins an interface. Register its routes, then add Fallback for "/".
func New(who, title, description string, log *slog.Logger) *API {
	mux := http.NewServeMux()
	a := &API{API: humago.New(mux, config(title, description)), Mux: mux, Who: who, Log: log, Author: Author, routes: map[string]route{}}
	describeKinds(a.OpenAPI().Components.Schemas)
	for _, suffix := range []string{".json", ".yaml", "-3.0.json", "-3.0.yaml"} { // huma's own routes
		a.routes["GET /openapi"+suffix] = route{role: RoleView}
	}
	return a
}

// config leaves out what huma would add: a page that loads scripts from
// the network, and a $schema link in every answer.
func config(title, description string) huma.Config {
	cfg := huma.DefaultConfig(title, version.String())
	cfg.Components = &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", schemaName)}
	cfg.Info.Description = description
	cfg.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	cfg.DocsPath = ""
	cfg.SchemasPath = ""
	cfg.CreateHooks = nil
	// A misspelt dry_run must not become a real change.
	cfg.RejectUnknownQueryParameters = true
	return cfg
}

// Get adds a route that changes nothing.
func Get[I, O any](a *API, path, id, summary string, call func(context.Context, *I) (O, error)) {
	Register(a, huma.Operation{Method: http.MethodGet, Path: path, OperationID: id, Summary: summary}, call)
}

// Register adds a route whose answer is the value that call returns. shape is what its body
// may be, if that is less than the default.
func Register[I, O any](a *API, op huma.Operation, call func(context.Context, *I) (O, error), shape ...Shape) {
	op.Middlewares = append(huma.Middlewares{inJSON}, op.Middlewares...)
	a.Route(&op)
	var schema *huma.Schema
	if _, has := reflect.TypeFor[I]().FieldByName("Body"); has {
		most := append(shape, Shape{})[0].orDefault()
		op.MaxBodyBytes = most.Bytes + 1                               // huma counts a body of just as many as too long
		op.BodyReadTimeout, op.SkipValidateBody = RequestTimeout, true // a.checked has read it
		op.Middlewares = append(op.Middlewares, a.checked(most, &schema))
		defer func() { schema = a.bodySchema(op.Method, op.Path) }()
	}
	huma.Register(a.API, op, func(ctx context.Context, in *I) (*reply[O], error) {
		a.asked(ctx, in)
		out, err := call(ctx, in)
		restart(ctx)
		if err != nil {
			failed(ctx, err)
			return nil, a.problem(ctx, err)
		}
		return &reply[O]{Body: out}, nil
	})
}

// bodySchema returns the schema of the body of a route that is registered.
func (a *API) bodySchema(method, path string) *huma.Schema {
	item := a.OpenAPI().Paths[path]
	for _, op := range []*huma.Operation{item.Post, item.Put, item.Patch, item.Delete} {
		if op != nil && op.Method == method {
			return op.RequestBody.Content["application/json"].Schema
		}
	}
	panic("no body with " + method + " " + path) // at start: a route whose method takes none
}

// under is a name for an embedded context that leaves its method Context free.
type under = huma.Context

// jsonOnly is the context of a request whose answer is JSON, whatever it accepts.
type jsonOnly struct{ under }

// Header implements huma.Context.
func (c jsonOnly) Header(name string) string {
	if name == "Accept" {
		return ""
	}
	return c.under.Header(name)
}

// Unwrap returns the context below, for humago.Unwrap.
func (c jsonOnly) Unwrap() huma.Context { return c.under }

// inJSON keeps the header Accept from huma, which has nothing to choose from, and panics at some
// values (2.37: "a;b,") once the change is made that the request asked for.
func inJSON(ctx huma.Context, next func(huma.Context)) { next(jsonOnly{ctx}) }

// writerKey is the key in a request's context of the http.ResponseController of its
// answer.
type writerKey struct{}

// answering hands the writers of answers to restart.
func answering(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), writerKey{}, http.NewResponseController(w))))
	})
}

// restart begins the time anew in which an answer has to be written. net/http counts it
// from the request on, and ends the connection without a word where the work in between
// takes longer, such as an experiment of weir tune.
func restart(ctx context.Context) {
	if w, ok := ctx.Value(writerKey{}).(*http.ResponseController); ok {
		_ = w.SetWriteDeadline(time.Now().Add(RequestTimeout)) // fails where there is no connection
	}
}

// Server returns an HTTP server with the limits above.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	srv := crowd.NewServer(answering(h), log, slog.LevelWarn)
	srv.ReadTimeout, srv.WriteTimeout, srv.ConnContext = RequestTimeout, RequestTimeout, WithPeer
	silent := &unasked{conns: map[net.Conn]struct{}{}}
	srv.ConnState = silent.note
	srv.RegisterOnShutdown(silent.close)
	return srv
}

// Shutdown gives requests under way a moment, then cuts them off.
func Shutdown(servers ...*http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), ShutdownTimeout)
	defer cancel()
	var all error
	for _, srv := range servers {
		if err := srv.Shutdown(ctx); err != nil {
			all = errors.Join(all, fmt.Errorf("requests cut off at shutdown: %w", err), srv.Close())
		}
	}
	return all
}

// Filled returns in, or an empty list for nil: a client gets [] as the OpenAPI document
// promises, and never null.
func Filled[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}
