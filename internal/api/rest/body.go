// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"weir/internal/core/bound"
)

// A body meets its checks in this order, and none of it reaches the value of the request
// before the last one: content type, bytes, levels and values, JSON, keys that stand twice, schema.
// Who may ask is decided before all of them.

// Shape bounds the body of a route; a field that is 0 has its default.
type Shape struct {
	Bytes  int64 // MaxBodyBytes
	Levels int   // of objects and lists in each other
	Values int   // in all objects and lists
}

const (
	maxLevels = bound.BodyLevels
	maxValues = 8 << 10
	// maxFindings bounds how many of a body's faults a refusal names.
	maxFindings = 8
)

// orDefault returns a shape with its defaults.
func (s Shape) orDefault() Shape {
	if s.Bytes == 0 {
		s.Bytes = MaxBodyBytes
	}
	if s.Levels == 0 {
		s.Levels = maxLevels
	}
	if s.Values == 0 {
		s.Values = maxValues
	}
	return s
}

// shapeOf measures a text without parsing it, in time that grows with its length. Of a text
// that is no JSON it says no less than a parser would follow.
func shapeOf(text []byte) Shape {
	s := Shape{Bytes: int64(len(text)), Values: 1}
	level, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			level++
			s.Levels, s.Values = max(s.Levels, level), s.Values+1
		case c == ']' || c == '}':
			level = max(0, level-1)
		case c == ',':
			s.Values++
		}
	}
	return s
}

// checked surrounds a route with a body: a body that its bounds or its schema refuse ends the
// request here. The schema is known once the route is registered.
func (a *API) checked(most Shape, schema **huma.Schema) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		text, status, err := readBody(ctx, most)
		if err == nil && len(text) > 0 { // of an empty one huma says whether the route needs it
			if status, err = fits(text, most); err == nil {
				a.match(ctx, next, text, *schema)
				return
			}
		}
		if err != nil {
			_ = huma.WriteErr(a.API, ctx, status, err.Error()) // fails where the client has gone
			return
		}
		next(bodyRead{ctx, text})
	}
}

// match goes on with a request whose body is what the schema asks for.
func (a *API) match(ctx huma.Context, next func(huma.Context), text []byte, schema *huma.Schema) {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		_ = huma.WriteErr(a.API, ctx, http.StatusBadRequest, "validation failed", &huma.ErrorDetail{Location: "body", Message: err.Error(), Value: text})
		return
	}
	if at := repeated(text); at != "" {
		at = bound.Shown(at)
		_ = huma.WriteErr(a.API, ctx, http.StatusUnprocessableEntity, "validation failed", &huma.ErrorDetail{Location: at, Message: "stands there twice; write it once"})
		return
	}
	found, at := huma.ValidateResult{}, huma.NewPathBuffer(nil, 0)
	at.Push("body")
	huma.Validate(a.OpenAPI().Components.Schemas, schema, at, huma.ModeWriteToServer, value, &found)
	if len(found.Errors) > 0 {
		_ = huma.WriteErr(a.API, ctx, http.StatusUnprocessableEntity, "validation failed", found.Errors...)
		return
	}
	next(bodyRead{ctx, text})
}

// readBody reads a body of the right type, as far as it may go. status is for the refusal.
func readBody(ctx huma.Context, most Shape) (text []byte, status int, err error) {
	r, w := humago.Unwrap(ctx)
	if !isJSON(r.Header.Get("Content-Type")) {
		closeAfter(w, r)
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("unknown content type: %s; send application/json", echo(r.Header.Get("Content-Type")))
	}
	tooLong := fmt.Errorf("the body is too large: it may have %d bytes", most.Bytes)
	if r.ContentLength > most.Bytes {
		closeAfter(w, r)
		return nil, http.StatusRequestEntityTooLarge, tooLong
	}
	if r.Body == nil {
		return nil, 0, nil
	}
	_ = ctx.SetReadDeadline(time.Now().Add(RequestTimeout)) // fails where there is no connection
	var room bytes.Buffer
	if r.ContentLength > 0 {
		room.Grow(int(r.ContentLength) + bytes.MinRead) // ReadFrom wants that much beyond the end
	}
	_, err = room.ReadFrom(io.LimitReader(r.Body, most.Bytes+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, http.StatusRequestTimeout, errors.New("the body did not come in time")
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("the body cannot be read: %w", err)
	case int64(room.Len()) > most.Bytes:
		closeAfter(w, r)
		return nil, http.StatusRequestEntityTooLarge, tooLong
	}
	return room.Bytes(), 0, nil
}

// isJSON reports whether a Content-Type is that of a body here; none counts as JSON.
func isJSON(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "" || kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// fits says why a body is not to be parsed, and the status of the refusal.
func fits(text []byte, most Shape) (status int, err error) {
	has := shapeOf(text)
	switch {
	case has.Levels > most.Levels:
		return http.StatusBadRequest, fmt.Errorf("the body has objects and lists %d levels deep; write at most %d", has.Levels, most.Levels)
	case has.Values > most.Values:
		return http.StatusBadRequest, fmt.Errorf("the body has about %d values; write at most %d", has.Values, most.Values)
	}
	return 0, nil
}

// bodyRead is the context of a request whose body was read.
type bodyRead struct {
	under
	text []byte
}

// BodyReader implements huma.Context.
func (b bodyRead) BodyReader() io.Reader { return bytes.NewReader(b.text) }

// Header implements huma.Context: the body is JSON, by whatever type it was sent.
func (b bodyRead) Header(name string) string {
	if name == "Content-Type" {
		return "application/json"
	}
	return b.under.Header(name)
}

// Unwrap returns the context below, for humago.Unwrap.
func (b bodyRead) Unwrap() huma.Context { return b.under }

// closeAfter has the connection end with the answer to a request whose body was not read to
// its end, rather than net/http read what comes of it.
func closeAfter(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
}
