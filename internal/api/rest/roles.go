// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/base/audit"
	"weir/internal/core/refusal"
)

// Role is a set of rights of a caller. The socket decides it, and nothing in a request
// does: each role has a socket of its own, which its group can open.
type Role string

// The roles. Each may do all that those before it may.
const (
	RoleView   Role = "view"   // look at what there is
	RoleChange Role = "change" // change it
)

// roleKey names the role that a route needs, in the OpenAPI document.
const roleKey = "x-weir-role"

// roleOf returns the role that a method needs. A method that is not known to change
// nothing counts as a change, and so does a dry run: the server opens what the caller
// names (a namespace's file, another node) with its own rights, and a parameter of a
// request must not decide about rights.
func roleOf(method string) Role {
	if method == http.MethodGet || method == http.MethodHead {
		return RoleView
	}
	return RoleChange
}

// route is the entry of one route in the table.
type route struct {
	role Role
	id   string // of the operation
}

// Route notes which role a route needs, in the table that Reading holds callers to
// and in the OpenAPI document. Register and Get do it; a route that is registered
// by other means needs it before.
func (a *API) Route(op *huma.Operation) {
	role := roleOf(op.Method)
	a.routes[op.Method+" "+op.Path] = route{role: role, id: op.OperationID}
	if role == RoleChange {
		op.Middlewares = append(op.Middlewares, a.record(op.OperationID))
	}
	if op.Extensions == nil {
		op.Extensions = map[string]any{}
	}
	op.Extensions[roleKey] = string(role)
}

// Action returns what the audit log calls the route of a pattern of the mux, "" if there is none.
func (a *API) Action(pattern string) string { return a.routes[pattern].id }

// needs returns the role for a pattern of the mux. A route that is not in the table needs
// the highest. Fallback changes nothing.
func (a *API) needs(pattern string) Role {
	if pattern == "/" || pattern == "" {
		return RoleView
	}
	if r, ok := a.routes[pattern]; ok {
		return r.role
	}
	return RoleChange
}

// Reading returns the API for callers with the role view. socket and group are those of
// the role change; a refusal names them.
func (a *API) Reading(socket, group string) http.Handler {
	changers, remedy := "root", "ask root"
	if group != "" {
		changers, remedy = "root and group "+group, "ask a member of group "+group
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := a.Mux.Handler(r)
		if a.needs(pattern) == RoleView {
			a.Mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), viewer{}, true)))
			return
		}
		no := &refusal.Error{
			Kind: refusal.Denied, Field: "role", Value: string(RoleView),
			Msg:    "only " + changers + " may change something, or try a change",
			Remedy: remedy + ", by the socket " + socket,
		}
		a.refused.count(no.Kind)
		a.Audit.Append(audit.Entry{Who: a.Author(r.Context()), Action: a.routes[pattern].id, Object: r.URL.Path,
			Result: audit.Refused, Reason: no.Msg})
		RefuseUnread(w, r, no)
	})
}

// viewer marks the context of a request by Reading.
type viewer struct{}

// Viewer reports whether a request came from a caller with the role view.
func Viewer(ctx context.Context) bool {
	is, _ := ctx.Value(viewer{}).(bool)
	return is
}
