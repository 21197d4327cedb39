// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"testing"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/face/server/page"
	"weir/internal/face/server/page/pagetest"
)

// TestPage: a link opens a session with the rights of the socket on which it was asked for;
// what the session changes is a line with its user, and refusals are lines too.
func TestPage(t *testing.T) {
	log := audit.New(t.TempDir()+"/audit.log", quiet())
	s, client := startWith(t, demo(), Options{Audit: log, ViewGroup: viewGroup, Web: page.Config{Listen: []string{"127.0.0.1:0"}, Key: t.TempDir() + "/web.key"}})
	viewer := api.NewClient(api.ViewSocket(s.opts.Socket))
	ask := func(method, path, token, body string) (int, string) {
		t.Helper()
		return pagetest.Ask(t, s.WebAddr(), method, path, token, body)
	}
	open := func(c *api.Client) string {
		t.Helper()
		link, err := c.Web(t.Context())
		return pagetest.Open(t, s.WebAddr(), link, err)
	}
	changer, looker := open(client), open(viewer)
	const path = "/v1/workloads/web/policy"
	for _, c := range []struct {
		what, token, method, path, body string
		status                          int
	}{
		{"to change", changer, http.MethodPatch, path, `{"weight":7}`, 200},
		{"to try a change", changer, http.MethodPatch, path + "?dry_run=true", `{"weight":9}`, 200},
		{"to change as viewer", looker, http.MethodPatch, path, `{"weight":8}`, 403},
		{"to try as viewer", looker, http.MethodPatch, path + "?dry_run=true", `{"weight":8}`, 403},
		{"to look as viewer", looker, http.MethodGet, "/v1/workloads", "", 200},
		{"to divide as viewer", looker, http.MethodGet, "/v1/divide?capacity=1mbit&workload=a", "", 200},
		{"without a token", "", http.MethodPatch, path, `{"weight":8}`, 401},
		{"a link from a session", changer, http.MethodGet, "/v1/web", "", 403},
		{"a file of the host", changer, http.MethodGet, "/../../etc/passwd", "", 404},
		{"metrics", changer, http.MethodGet, "/metrics", "", 404},
	} {
		if status, answer := ask(c.method, c.path, c.token, c.body); status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.what, status, c.status, answer)
		}
	}
	list, err := log.Read(t.Context(), audit.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var changed, refused int
	for _, e := range list {
		if e.Action == "set-policy" && e.Result == audit.Done {
			changed++
			if e.Who.Via != audit.ViaWeb || e.Who.UID == nil || e.Who.Address == "" || e.Object != "web" {
				t.Errorf("the change's line is %+v", e)
			}
		}
		if e.Result == audit.Refused && e.Who.Via == audit.ViaWeb {
			refused++
		}
	}
	if changed != 1 || refused != 4 {
		t.Errorf("%d lines of changes, %d of refusals", changed, refused)
	}
	if _, err := client.EndWeb(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(http.MethodGet, "/v1/workloads", changer, ""); status != 401 {
		t.Errorf("after the end of all sessions: status %d", status)
	}
}
