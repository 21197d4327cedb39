// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/core/refusal"
)

// huma makes its own errors (a body that does not match the schema, an unknown
// query parameter) with this function. It is a variable of the library's, so it
// can only be set for the whole process; Weir has one kind of error anyway.
func init() {
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return schemaProblem(status, msg, errs)
	}
}

// maxEcho bounds how much of a refused value the server sends back.
const maxEcho = 100

// schemaProblem turns the findings of huma's validation into one problem. The
// first finding gives field and value, all of them the text.
func schemaProblem(status int, msg string, errs []error) *api.ProblemDetails {
	e := refusal.Error{Kind: api.KindOf(status), Msg: msg}
	var findings []string
	for i, err := range errs {
		if err == nil {
			continue
		}
		if i >= maxFindings {
			findings = append(findings, fmt.Sprintf("and %d more", len(errs)-i))
			break
		}
		field, value, text := finding(err)
		if len(findings) == 0 {
			e.Field, e.Value = field, value
		} else if field != "" {
			text = field + ": " + text
		}
		findings = append(findings, text)
	}
	if len(findings) > 0 {
		e.Msg = strings.Join(findings, "; ")
		e.Remedy = remedyFor(e.Field, findings[0])
	}
	return api.ProblemOf(&e).WithStatus(status)
}

func finding(err error) (field, value, text string) {
	var d huma.ErrorDetailer
	if !errors.As(err, &d) {
		return "", "", err.Error()
	}
	detail := d.ErrorDetail()
	field = detail.Location
	for _, prefix := range []string{"body.", "path.", "query."} {
		field = strings.TrimPrefix(field, prefix)
	}
	if name, ok := missing(detail.Message); ok {
		return name, "", "is missing"
	}
	return field, echo(detail.Value), detail.Message
}

// missing returns the property that a finding of huma's misses; huma says of it only
// where it should have been.
func missing(message string) (name string, ok bool) {
	name, ok = strings.CutPrefix(message, "expected required property ")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(name, " to be present")
}

// echo returns a refused value as text; a text stays as it is.
func echo(value any) string {
	var s string
	switch v := value.(type) {
	case nil:
	case string:
		s = v
	case []byte:
		s = string(v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		s = string(b)
	}
	if len(s) > maxEcho {
		s = strings.ToValidUTF8(s[:maxEcho], "") + "..."
	}
	return s
}

// problem returns err as the client sees it. A refusal goes out as it is; any other error
// is a failure of this program and is logged too.
func (a *API) problem(ctx context.Context, err error) error {
	if e := refusal.Of(err); e != nil {
		return api.ProblemOf(e)
	}
	if ctx.Err() == nil {
		a.Log.Error("request failed", "err", err)
	}
	return api.ProblemOf(&refusal.Error{
		Kind:   refusal.Failed,
		Msg:    err.Error(),
		Remedy: "see the " + a.Who + "'s log: journalctl -u " + Unit(a.Who),
	})
}

// WriteRefusal answers requests that never reach huma.
func WriteRefusal(w http.ResponseWriter, e *refusal.Error) { api.WriteProblem(w, api.ProblemOf(e)) }

// RefuseUnread refuses a request whose body was not read, and has the connection end rather
// than net/http read what comes of the body.
func RefuseUnread(w http.ResponseWriter, r *http.Request, e *refusal.Error) {
	closeAfter(w, r)
	WriteRefusal(w, e)
}

// Fallback answers requests that no route matches.
func Fallback(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if allowed := methodsOf(mux, r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			api.WriteProblem(w, api.ProblemOf(&refusal.Error{
				Kind: refusal.Invalid, Field: "method", Value: r.Method,
				Msg:    fmt.Sprintf("%s cannot be used with %s", r.Method, echo(r.URL.Path)),
				Remedy: "use " + strings.Join(allowed, " or "),
			}).WithStatus(http.StatusMethodNotAllowed))
			return
		}
		WriteRefusal(w, &refusal.Error{
			Kind: refusal.Unknown, Field: "path", Value: echo(r.URL.Path),
			Msg: "no such route", Remedy: "see /openapi.json for those there are",
		})
	}
}

// methodsOf returns the methods that a route for the request's path would take.
func methodsOf(mux *http.ServeMux, r *http.Request) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := mux.Handler(probe); pattern != "" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
