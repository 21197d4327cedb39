// SPDX-License-Identifier: Apache-2.0

package managerapi

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/base/audit"
	"weir/internal/core/refusal"
	"weir/internal/face/server/page"
	"weir/internal/face/server/page/pagetest"
	"weir/internal/face/web"
)

// clusterPage keeps TestPage serving the page of a cluster in memory, for scripts/browser.
var (
	clusterPage  = flag.String("page", "", "folder: serve the page of a cluster in memory, with the socket manager.sock there, until the test is ended")
	clusterNodes = flag.Int("nodes", 1000, "nodes of that cluster")
)

// fake is a manager in memory: its moves go on by the clock, a step a second.
type fake struct {
	api.Manager // the methods that no test calls
	nodes       int
	begun       time.Time

	mu    sync.Mutex
	moves []api.Move
}

var steps = []string{"checked", "sent ahead", "frozen", "sent", "restored", "confirmed"}

func newFake(nodes int) *fake {
	begun := time.Now().UTC()
	return &fake{nodes: nodes, begun: begun, moves: []api.Move{
		{ID: "m-old", Container: "api", From: "n0001", To: "n0000", Why: "evens out cpu", State: "done", Step: "confirmed", Created: begun.Add(-time.Hour),
			Ended: begun.Add(-time.Hour + 9*time.Second), Bytes: 210e6, DownMS: 840, Steps: []api.MoveStep{{Step: "checked", DurationMS: 120}, {Step: "sent", Bytes: 210e6, DurationMS: 8000}}},
		{ID: "m-bad", Container: "db", From: "n0002", To: "n0001", Why: "weir migrate", State: "rolled-back", Step: "sent", Created: begun.Add(-2 * time.Hour),
			Ended: begun.Add(-2*time.Hour + 20*time.Second), Bytes: 4e9, Error: "no space left on n0001", Steps: []api.MoveStep{{Step: "sent", Error: "no space left on n0001", DurationMS: 19000}}},
	}}
}

func (f *fake) Cluster(context.Context) (api.Cluster, error) {
	c := api.Cluster{Version: "v1", Started: f.begun, Address: "10.0.0.1:7470", Bus: "nats", BusUp: true, Nodes: f.nodes, NodesUp: f.nodes - 1,
		Images:    &api.Images{Bytes: 3e9, Nodes: map[string]uint64{}},
		Automatic: api.Automatic{Enabled: true, IntervalSeconds: 60, Last: f.begun, LastResult: "nothing is worth a move", QuietHours: []string{}}}
	for _, m := range f.list() {
		if m.State == "running" {
			c.Running++
		}
	}
	return c, nil
}

func (f *fake) Nodes(context.Context) ([]api.Node, error) {
	list := []api.Node{}
	for i := range f.nodes {
		n := api.Node{Name: fmt.Sprintf("n%04d", i), State: api.NodeUp, Address: fmt.Sprintf("10.0.%d.%d:7473", i/250, i%250+2), Heard: time.Now().UTC(), Joined: f.begun,
			Weir: "v1", Kernel: "6.18.3", Engines: []string{"docker 26.1.5"}, CRIU: "4.2.1", Containers: 3, CPUCores: float64(i%8) / 2, CPUCapacity: 4,
			MemoryBytes: uint64(i%7+1) * 1e9, MemoryTotal: 8e9, TransmitBps: float64(i%90)*1e6 + float64(time.Now().Second())*1e5,
			ReservedBps: uint64(i%10) * 10e6, GuaranteedBps: 100e6, Missing: []string{}}
		if i == 2 {
			n.State, n.Heard = api.NodeLost, f.begun.Add(-time.Hour)
		}
		list = append(list, n)
	}
	return list, nil
}

func (f *fake) Containers(context.Context) ([]api.ClusterContainer, error) {
	list := []api.ClusterContainer{}
	for i := range f.nodes {
		for k, name := range []string{"web", "db", "batch"} {
			list = append(list, api.ClusterContainer{Name: name, ID: fmt.Sprintf("%064x", i*3+k), Node: fmt.Sprintf("n%04d", i), Engine: "docker", Image: "shop/" + name,
				CPUCores: 0.3, MemoryBytes: 200e6, TransmitBps: 12e6, Weight: uint32(k + 1), MinBps: uint64(k) * 10e6, Pinned: name == "db"})
		}
	}
	return list, nil
}

// list returns the moves as they stand now. The newest is first.
func (f *fake) list() []api.Move {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.moves)
	for i := range list {
		m := &list[i]
		if m.State != "running" {
			continue
		}
		done := min(int(time.Since(m.Created)/time.Second), len(steps))
		m.Steps = []api.MoveStep{}
		for _, s := range steps[:done] {
			m.Steps = append(m.Steps, api.MoveStep{Step: s, Bytes: 30e6, DurationMS: 1000})
			m.Bytes += 30e6
		}
		if done == len(steps) {
			m.State, m.Ended, m.DownMS = "done", m.Created.Add(time.Duration(done)*time.Second), 900
			continue
		}
		m.Step = steps[done]
	}
	slices.SortFunc(list, func(a, b api.Move) int { return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID)) })
	return list
}

func (f *fake) Moves(context.Context) ([]api.Move, error) { return f.list(), nil }

func (f *fake) Move(_ context.Context, id string) (api.Move, error) {
	for _, m := range f.list() {
		if m.ID == id {
			return m, nil
		}
	}
	return api.Move{}, &refusal.Error{Kind: refusal.Unknown, Field: "move", Value: id, Msg: "no move has this id"}
}

func (f *fake) order(container, from, to, why string) api.Move {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := api.Move{ID: fmt.Sprintf("m-%d", len(f.moves)), Container: container, From: from, To: to, Why: why, State: "running", Step: steps[0], Created: time.Now().UTC(), Steps: []api.MoveStep{}}
	f.moves = append(f.moves, m)
	return m
}

func (f *fake) Migrate(_ context.Context, req api.MoveRequest, dryRun bool) (api.Move, error) {
	from, name, _ := strings.Cut(req.Container, "/")
	if name == "batch" {
		return api.Move{}, &refusal.Error{Kind: refusal.Conflict, Field: "container", Value: name, Msg: "has a device that " + req.To + " lacks", Remedy: "choose another node"}
	}
	if dryRun {
		return api.Move{ID: "m-dry", Container: name, From: from, To: req.To, State: "done", DryRun: true, Steps: []api.MoveStep{}}, nil
	}
	return f.order(name, from, req.To, "weir migrate"), nil
}

func (f *fake) CancelMove(ctx context.Context, id string, dryRun bool) (api.Cancellation, error) {
	m, err := f.Move(ctx, id)
	c := api.Cancellation{Effect: "asked", Text: m.Container + " goes back to " + m.From, Move: m, DryRun: dryRun}
	if err == nil && !dryRun {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range f.moves {
			if f.moves[i].ID == id {
				f.moves[i].State, f.moves[i].Ended = "cancelled", time.Now().UTC()
			}
		}
	}
	return c, err
}

func (f *fake) plan() api.ClusterPlan {
	load := func(cpu float64, free uint64, n int) api.NodeLoad {
		return api.NodeLoad{Containers: n, CPU: cpu, Memory: 0.5, FreeBps: free}
	}
	return api.ClusterPlan{Algorithm: "local", Alpha: 0.85, Above: 0.7, Calm: 1, Seconds: 0.01,
		Before: api.ClusterFit{S: 0.12, Peak: map[string]float64{"cpu": 0.9, "network": 0.8}, FreeBps: 40e6, FreeNode: "n0001"},
		After:  api.ClusterFit{S: 0.01, Peak: map[string]float64{"cpu": 0.5, "network": 0.6}, FreeBps: 80e6, FreeNode: "n0001", Seconds: 8, MoveBytes: 120e6},
		Moves:  []api.PlanMove{{Container: "web", From: "n0000", To: "n0001", Why: "evens out cpu between n0000 and n0001", S: 0.01, Bytes: 120e6, Seconds: 8}},
		Nodes: []api.PlanNode{{Name: "n0000", Before: load(0.9, 40e6, 3), After: load(0.5, 80e6, 2)},
			{Name: "n0001", Before: load(0.1, 100e6, 3), After: load(0.5, 60e6, 4)}},
		Held: []api.PlanHeld{{Container: "db", Node: "n0000", Why: "it is pinned"}}, Unknown: []string{"n0002"}, Refusals: []string{}}
}

func (f *fake) Plan(context.Context, api.PlanRequest) (api.ClusterPlan, error) { return f.plan(), nil }

func (f *fake) Rebalance(context.Context, api.PlanRequest) (api.ClusterPlan, error) {
	p := f.plan()
	for i, m := range p.Moves {
		p.Moves[i].ID = f.order(m.Container, m.From, m.To, m.Why).ID
	}
	p.Applied = true
	return p, nil
}

func (f *fake) Tokens(context.Context) ([]api.Token, error) { return []api.Token{}, nil }

// TestPage: a session of the manager's page has the rights of the socket on which its link was
// asked for, and gets no secret that would outlive it, whatever these are.
func TestPage(t *testing.T) {
	folder, nodes := t.TempDir(), 3
	if *clusterPage != "" {
		folder, nodes = *clusterPage, *clusterNodes
	}
	quiet := slog.New(slog.DiscardHandler)
	socket := filepath.Join(folder, "manager.sock")
	log := audit.New(filepath.Join(folder, "audit.log"), quiet)
	defer log.Close()
	a := New(newFake(nodes), log, quiet)
	p := page.New(a, page.Options{Config: page.Config{Listen: []string{"127.0.0.1:0"}, Key: filepath.Join(folder, "web.key")}, Program: web.Manager, Socket: socket})
	p.Listen()
	srv := p.Serve(t.Context())
	defer srv.Close()
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	sock, view := rest.Server(a.Mux, quiet), rest.Server(a.Reading(socket, ""), quiet)
	defer sock.Close()
	if *clusterPage != "" {
		t.Log(sock.Serve(ln)) // until the process is ended
		return
	}
	go sock.Serve(ln)
	lookers, err := net.Listen("unix", api.ViewSocket(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	go view.Serve(lookers)

	ask := func(method, path, token, body string) (int, string) {
		t.Helper()
		return pagetest.Ask(t, p.Addr(), method, path, token, body)
	}
	open := func(socket string) string {
		t.Helper()
		link, err := api.NewManagerClient(socket).Web(t.Context())
		return pagetest.Open(t, p.Addr(), link, err)
	}
	if _, index := ask(http.MethodGet, "/", "", ""); !strings.Contains(index, "js/cluster.js") {
		t.Errorf("the page is %s", index)
	}
	changer, looker := open(socket), open(api.ViewSocket(socket))
	for _, c := range []struct {
		what, token, method, path, body string
		status                          int
	}{
		{"to look", looker, http.MethodGet, "/v1/nodes", "", 200},
		{"to plan", changer, http.MethodPost, "/v1/rebalance?dry_run=true", `{}`, 200},
		{"to plan as viewer", looker, http.MethodPost, "/v1/rebalance?dry_run=true", `{}`, 403},
		{"to move", changer, http.MethodPost, "/v1/moves", `{"container":"n0000/web","to":"n0001"}`, 200},
		{"to move as viewer", looker, http.MethodPost, "/v1/moves", `{"container":"n0000/web","to":"n0001"}`, 403},
		{"without a token", "", http.MethodGet, "/v1/nodes", "", 401},
		{"a snapshot", changer, http.MethodPost, "/v1/snapshot", "", 403},
		{"a snapshot, as a dry run", changer, http.MethodPost, "/v1/snapshot?dry_run=true", "", 403},
		{"a token", changer, http.MethodPost, "/v1/tokens", `{}`, 403},
		{"a token, by another path", changer, http.MethodPost, "//v1/./tokens", `{}`, 403},
		{"which tokens there are", looker, http.MethodGet, "/v1/tokens", "", 200},
		{"a link", changer, http.MethodGet, "/v1/web", "", 403},
	} {
		if status, answer := ask(c.method, c.path, c.token, c.body); status != c.status {
			t.Errorf("%s: status %d, want %d: %s", c.what, status, c.status, answer)
		}
	}
	list, err := log.Read(t.Context(), audit.Query{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	moved := slices.IndexFunc(list, func(e audit.Entry) bool { return e.Action == "migrate" && e.Result == audit.Done })
	secret := slices.IndexFunc(list, func(e audit.Entry) bool { return e.Object == "/v1/snapshot" && e.Result == audit.Refused })
	if secret < 0 || list[secret].Who.UID == nil {
		t.Errorf("the refused snapshot's line names nobody: %+v", list)
	}
	if moved < 0 || list[moved].Who.Via != audit.ViaWeb || list[moved].Who.UID == nil {
		t.Errorf("the audit log has %+v", list)
	}
	if _, err := api.NewManagerClient(socket).EndWeb(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(http.MethodGet, "/v1/nodes", changer, ""); status != 401 {
		t.Errorf("after the end of all sessions: status %d", status)
	}
}
