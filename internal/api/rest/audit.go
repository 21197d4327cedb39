// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/core/refusal"
)

// record surrounds a route that changes something: the request is one line in the
// program's log and, unless it is a dry run, one in the audit log.
func (a *API) record(id string) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		e := audit.Entry{Who: a.Author(ctx.Context()), Action: id, Object: cmp.Or(ctx.Param("name"), ctx.Param("id"))}
		out := &outcome{object: e.Object}
		act := func(c context.Context) error {
			next(huma.WithContext(ctx, context.WithValue(c, outcomeKey{}, out)))
			if status := ctx.Status(); out.err == nil && status >= http.StatusMultipleChoices {
				return audit.Refusedf("status %d: not what /openapi.json asks for", status)
			}
			return out.err
		}
		dry, _ := strconv.ParseBool(ctx.Query("dry_run")) // as huma reads it
		log := a.Audit
		if dry {
			log = nil
		}
		defer a.changes.Add(1)
		err := log.Do(ctx.Context(), e, act)
		if status := ctx.Status(); !dry && status >= http.StatusBadRequest {
			a.refused.count(cmp.Or(refusal.KindOf(out.err), api.KindOf(status)))
		}
		args := []any{"action", id, "object", out.object, "dry_run", dry}
		if p, ok := PeerOf(ctx.Context()); ok {
			args = append(args, "peer", p)
		}
		if err != nil {
			args = append(args, "err", err)
		}
		if err != nil && e.Who.Via == audit.ViaNetwork { // anybody can make any number of those
			omitted, due := a.strangers.Due(time.Now())
			if !due {
				return
			}
			args = append(args, "omitted", omitted)
		}
		a.Log.Info("change asked", args...)
	}
}

// outcome carries the parts of a record that only the handler knows.
type outcome struct {
	object string
	err    error
}

type outcomeKey struct{}

// BodySubject is an input of a route whose body names the object of the request.
type BodySubject interface{ Subject() string }

// asked notes the change that a request asks for.
func (a *API) asked(ctx context.Context, in any) {
	out, ok := ctx.Value(outcomeKey{}).(*outcome)
	if !ok {
		return
	}
	if s, ok := in.(BodySubject); ok {
		out.object = s.Subject()
	}
	var body any
	if field := reflect.ValueOf(in).Elem().FieldByName("Body"); a.Bodies && field.IsValid() {
		body = field.Interface()
	}
	audit.Ask(ctx, out.object, body)
}

// failed notes how a request ended.
func failed(ctx context.Context, err error) {
	if out, ok := ctx.Value(outcomeKey{}).(*outcome); ok {
		out.err = err
	}
}

// auditInput says which entries are wanted.
type auditInput struct {
	Since  time.Time `query:"since" doc:"the first moment, RFC 3339; without it, all" example:"2026-11-22T00:00:00Z"`
	Object string    `query:"object" maxLength:"256" doc:"the object that was changed; without it, all objects" example:"web"`
	Limit  int       `query:"limit" minimum:"1" maximum:"5000" default:"1000" doc:"the newest so many"`
}

// ServeAudit adds the route that returns the audit log.
func (a *API) ServeAudit() {
	reads := NewReads()
	Get(a, "/v1/audit", "audit", "Who changed what: the audit log, the oldest entry first",
		func(ctx context.Context, in *auditInput) ([]audit.Entry, error) {
			leave, err := reads.Enter(ctx, a.Author(ctx))
			if err != nil {
				return nil, err
			}
			defer leave()
			list, err := a.Audit.Read(ctx, audit.Query{Since: in.Since, Object: in.Object, Limit: in.Limit})
			return Filled(list), err
		})
}

var _ interface{ Refused() bool } = (*refusal.Error)(nil)
