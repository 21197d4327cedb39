// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/base/audit"
	"weir/internal/core/wire"
	"weir/internal/face/server/managerapi"
)

// walk is a manager whose routes a test calls one after the other, with its audit log.
type walk struct {
	*bed
	log  *audit.Log
	seen int
}

func newWalk(t *testing.T) *walk {
	t.Helper()
	w := &walk{bed: newBed(t, "a", "b", "c"), log: audit.New(filepath.Join(t.TempDir(), "audit.log"), slog.New(slog.DiscardHandler))}
	w.opts.Audit = w.log
	w.strangers = newStrangers(w.Manager)
	w.has["a"] = []string{"web", "db"}
	var err error
	if w.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.listener.Close() })
	w.now = time.Now()
	w.pass(0)
	return w
}

// added returns the lines since the last call, without those about states of moves,
// which the manager writes by itself.
func (w *walk) added() (list []audit.Entry) {
	w.t.Helper()
	all, err := w.log.Read(w.t.Context(), audit.Query{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range all[w.seen:] {
		if e.Action != "move" || e.Who.Via != audit.ViaManager {
			list = append(list, e)
		}
	}
	w.seen = len(all)
	return list
}

// operations returns the routes of an API, as its document lists them.
func operations(t *testing.T, h http.Handler) map[string]string {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", "/openapi.json", nil))
	var doc struct {
		Paths map[string]map[string]struct {
			ID string `json:"operationId"`
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	list := map[string]string{}
	for path, item := range doc.Paths {
		for method, op := range item {
			list[strings.ToUpper(method)+" "+path] = op.ID
		}
	}
	return list
}

// TestEachChangeIsOneLine walks all routes of the manager's socket: each that changes
// something leaves exactly one line with who asked, what it was about, before, after and
// the result, whether it is granted or refused; a dry run and what only looks leave none.
func TestEachChangeIsOneLine(t *testing.T) {
	w := newWalk(t)
	socket := filepath.Join(t.TempDir(), "manager.sock")
	ln, err := rest.Listen(socket, "", "manager", w.Manager.log)
	if err != nil {
		t.Fatal(err)
	}
	srv := rest.Server(managerapi.New(w.Manager, w.log, slog.New(slog.DiscardHandler)).Mux, w.Manager.log)
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close(); ln.Close() })
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	ask := func(method, path, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://weir"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		// The handler has returned, and the line is written, when the answer has ended; a
		// long one begins before.
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	token, err := w.NewToken(t.Context(), api.TokenRequest{Node: "gateway-7"})
	if err != nil {
		t.Fatal(err)
	}
	mv := w.order("db", "a", "b")
	// What each route needs to be granted, and the record of it then.
	granted := map[string]struct {
		id, body      string // of the path, of the request
		object        string
		before, after string // words of it
	}{
		"rebalance":        {body: `{}`, object: "cluster", after: "moves"},
		"migrate":          {body: `{"container":"web","to":"b"}`, object: "web", after: "state"},
		"cancel-move":      {id: mv.ID, object: mv.ID, before: string(wire.MoveOrdered), after: "asked"},
		"snapshot":         {object: "cluster", after: "bytes"},
		"remove-node":      {id: "c", object: "c", before: "joined"},
		"make-token":       {body: `{"node":"gateway-8"}`, object: "gateway-8", after: "expires"},
		"revoke-token":     {id: token.ID, object: token.ID, before: "gateway-7"},
		"rotate-authority": {object: "cluster", before: "authority", after: "authority"},
	}
	refusable := map[string]string{"migrate": `{"container":"nobody","to":"b"}`, "make-token": `{"uses":-7}`, "rebalance": `{"algorithm":"magic"}`}
	w.added()
	for route, id := range operations(t, srv.Handler) {
		method, path, _ := strings.Cut(route, " ")
		if method == http.MethodGet {
			ask(method, strings.NewReplacer("{id}", mv.ID, "{name}", "a").Replace(path), "")
			if lines := w.added(); len(lines) != 0 {
				t.Errorf("%s left %+v", route, lines)
			}
			continue
		}
		g, known := granted[id]
		if !known {
			t.Errorf("%s (%s) is not known to this test", route, id)
			continue
		}
		here := strings.NewReplacer("{id}", g.id, "{name}", g.id).Replace(path)
		if strings.Contains(path, "moves") || id == "rebalance" {
			ask(method, here+"?dry_run=true", g.body)
			if lines := w.added(); len(lines) != 0 {
				t.Errorf("%s?dry_run=true left %+v", route, lines)
			}
		}
		w.oneLine(id, ask(method, here, g.body), audit.Done, g.object, g.before, g.after)
		elsewhere := strings.NewReplacer("{id}", "none-such", "{name}", "none-such").Replace(path)
		if body := refusable[id]; elsewhere != path || body != "" || id == "rotate-authority" {
			w.oneLine(id, ask(method, elsewhere, body), audit.Refused, "", "", "")
		}
	}
}

// oneLine checks the one line of a request.
func (w *walk) oneLine(id string, status int, result, object, before, after string) {
	w.t.Helper()
	lines := w.added()
	if len(lines) != 1 {
		w.t.Errorf("%s, status %d, left %d lines: %+v", id, status, len(lines), lines)
		return
	}
	e := lines[0]
	words := func(v any, want string) bool {
		text, err := json.Marshal(v)
		return err == nil && (want == "" || strings.Contains(string(text), want))
	}
	switch {
	case (status < 300) != (result == audit.Done), e.Action != id, e.Result != result, object != "" && e.Object != object, result != audit.Done && e.Reason == "":
		w.t.Errorf("%s, status %d, want %s of %s: %+v", id, status, result, object, e)
	case !words(e.Before, before) || !words(e.After, after) || before == "" && e.Before != nil || after == "" && e.After != nil:
		w.t.Errorf("%s: before %+v, after %+v; want %q and %q", id, e.Before, e.After, before, after)
	case e.Who.Via == audit.ViaSocket && (e.Who.UID == nil || *e.Who.UID != uint32(os.Getuid()) || e.Who.PID != int32(os.Getpid())):
		w.t.Errorf("%s: by %+v", id, e.Who)
	}
}

// TestEachRequestOfANodeIsOneLine is the same for the routes that nodes use: the node is
// on record, or the address of a stranger.
func TestEachRequestOfANodeIsOneLine(t *testing.T) {
	w := newWalk(t)
	h, all := w.nodesAPI().Mux, w.nodesHandler()
	mv := w.order("web", "a", "b")
	manifest, err := json.Marshal(wire.Manifest{Move: mv.ID, Node: "a", Container: "web", ContainerID: "id-web", Engine: "docker", Approach: "layer",
		Digest: strings.Repeat("ab", 32), ImageID: "sha256:1", Parts: []string{"layer"}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, body, node string) int {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		rec := httptest.NewRecorder()
		if node == "" {
			all.ServeHTTP(rec, r)
		} else {
			h.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), peerKey{}, remote{address: "192.0.2.7:1", node: node})))
		}
		return rec.Code
	}
	bodies := map[string]string{
		"join": `{"token":"x","secret":"y","node":"new","request":"AA=="}`, "renew": `{"sealed":"AA=="}`, "grant": string(manifest),
		"seek": `{"id":"p-1","node":"a","container":"db","min_bps":1000000,"change":{"min":"1mbit"},"refusal":"full"}`,
	}
	objects := map[string]string{"grant": "web", "seek": "db"}
	w.added()
	for route, id := range operations(t, h) {
		method, path, _ := strings.Cut(route, " ")
		body, known := bodies[id]
		if method == http.MethodGet {
			ask(method, path, "", "a")
			if lines := w.added(); len(lines) != 0 {
				t.Errorf("%s left %+v", route, lines)
			}
			continue
		}
		if !known {
			t.Errorf("%s (%s) is not known to this test", route, id)
			continue
		}
		if object, ok := objects[id]; ok {
			w.oneLine(id, ask(method, path, body, "a"), audit.Done, object, "", "")
		}
		w.oneLine(id, ask(method, path, body, ""), audit.Refused, "", "", "")
	}
}
