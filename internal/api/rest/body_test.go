// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// filled is a value of a body that notes the texts it is read from, in reads.
type filled struct{}

// reads has what a filled was read from in a test.
var reads []string

func (f *filled) UnmarshalJSON(text []byte) error {
	reads = append(reads, string(text))
	return nil
}

func (filled) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeArray, Items: &huma.Schema{}}
}

// endless is a body that goes on for ever, and counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += len(p)
	return len(p), nil
}

// TestBodiesAreCheckedBeforeTheyFillAValue: what a body must not be is found in this order:
// another type, too many bytes, too many levels or values, not JSON, not what the schema asks
// for. Nothing of such a body reaches the value of the request.
func TestBodiesAreCheckedBeforeTheyFillAValue(t *testing.T) {
	a := New("agent", "test", "", slog.New(slog.DiscardHandler))
	type in struct {
		Body struct {
			A *filled `json:"a,omitempty"`
			B int     `json:"b"`
		}
	}
	post := func(path string, shape ...Shape) {
		Register(a, huma.Operation{Method: http.MethodPost, Path: path, OperationID: path[1:], Summary: "takes a body"},
			func(context.Context, *in) (string, error) { return "done", nil }, shape...)
	}
	post("/any")
	post("/small", Shape{Bytes: 100, Levels: 2, Values: 5})
	ask := func(path, kind string, body io.Reader) int {
		reads = nil
		r := httptest.NewRequest(http.MethodPost, path, body)
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		a.Mux.ServeHTTP(w, r)
		if w.Body.Len() > 4<<10 {
			t.Errorf("%s: an answer of %d bytes", path, w.Body.Len())
		}
		return w.Code
	}
	const json = "application/json"
	for _, c := range []struct {
		what, path, kind, body string
		status                 int
	}{
		{"right", "/any", json, `{"a":[1],"b":2}`, 200},
		{"right, with a set of characters", "/any", json + "; charset=utf-8", `{"b":2}`, 200},
		{"right, of a type of its own", "/any", "application/vnd.x+json", `{"b":2}`, 200},
		{"right, without a type", "/any", "", `{"b":2}`, 200},
		{"none", "/any", json, ``, 400},
		{"another type", "/any", "text/plain", `{"a":[1],"b":2}`, 415},
		{"another type, too long", "/any", "text/plain", strings.Repeat(" ", 1<<20), 415},
		{"too long", "/any", json, `{"a":[1],"b":2}` + strings.Repeat(" ", MaxBodyBytes), 413},
		{"as long as may be", "/any", json, `{"a":[1],"b":2` + strings.Repeat(" ", MaxBodyBytes-15) + "}", 200},
		{"too deep", "/any", json, `{"b":2,"a":` + strings.Repeat("[", maxLevels) + strings.Repeat("]", maxLevels) + `}`, 400},
		{"brackets in a text", "/any", json, `{"b":2,"a":["\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[["]}`, 200},
		{"too many values", "/any", json, `{"b":2,"a":[` + strings.Repeat("0,", maxValues) + `0]}`, 400},
		{"too deep for its route", "/small", json, `{"b":2,"a":[[1]]}`, 400},
		{"too many values for its route", "/small", json, `{"b":2,"a":[1,2,3]}`, 400},
		{"too long for its route", "/small", json, `{"b":2}` + strings.Repeat(" ", 100), 413},
		{"right for its route", "/small", json, `{"b":2,"a":[1]}`, 200},
		{"no JSON", "/any", json, `{"a":[1],"b":2`, 400},
		{"two values", "/any", json, `{"b":2}{"b":2}`, 400},
		{"another type of one field", "/any", json, `{"a":"[[[[[","b":2}`, 422},
		{"another type of another field", "/any", json, `{"a":[1],"b":"x"}`, 422},
		{"a field too many", "/any", json, `{"a":[1],"b":2,"c":3}`, 422},
		{"a field too few", "/any", json, `{"a":[1]}`, 422},
		{"a field twice", "/any", json, `{"b":2,"a":[1],"b":3}`, 422},
		{"a field twice, once with an escape", "/any", json, `{"b":2,"a":[1],"\u0062":3}`, 422},
		{"a field twice, further in", "/any", json, `{"b":2,"a":[{"x":[],"y":{},"x":1}]}`, 422},
		{"a field in two objects", "/any", json, `{"b":2,"a":[{"x":1,"y":{"x":"x"}},{"x":1}]}`, 200},
		{"many fields too many", "/any", json, `{"a":[1],"b":2` + manyFields(500) + `}`, 422},
	} {
		if got := ask(c.path, c.kind, strings.NewReader(c.body)); got != c.status {
			t.Errorf("%s: status %d, want %d", c.what, got, c.status)
		}
		if c.status != 200 && len(reads) > 0 {
			t.Errorf("%s: a value was filled from %q", c.what, reads)
		}
	}
	long := &endless{}
	if got := ask("/any", json, long); got != 413 || long.read > 2*MaxBodyBytes {
		t.Errorf("without an end: status %d, %d bytes read", got, long.read)
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,"x` + strings.Repeat("y", i%7) + `":1`)
	}
	return b.String()
}

// TestShapeOf counts levels and values as a parser of JSON does, and texts as one value.
func TestShapeOf(t *testing.T) {
	for text, want := range map[string]Shape{
		`1`: {Levels: 0, Values: 1}, `[]`: {Levels: 1, Values: 1}, `{"a":[1,{"b":"],["}]}`: {Levels: 3, Values: 4}, `"\\"`: {Values: 1}, `"\"[["`: {Values: 1},
		`[[1],[2,[3]]]`: {Levels: 3, Values: 7}, "": {Values: 1}, `]]]][[`: {Levels: 2, Values: 3},
	} {
		if got := shapeOf([]byte(text)); got.Levels != want.Levels || got.Values < want.Values-2 || got.Values > want.Values+2 {
			t.Errorf("%s: %+v, want about %+v", text, got, want)
		}
	}
}

func TestRepeated(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":1,"b":{"a":2,"c":[{"d":1},{"d":{"e":1},"f":[[],[1]],"d":2}]}}`: "body.b.c[1].d",
		`{"a":{},"b":[],"a":0}`: "body.a", `[[{"x":1,"x":1}]]`: "body[0][0].x",
		`{"a":"a","b":"a","c":["a","a","c"]}`: "", `{"":1,"":2}`: "body.", `"a"`: "", `[]`: "",
	} {
		if got := repeated([]byte(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
