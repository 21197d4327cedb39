// SPDX-License-Identifier: Apache-2.0

package clustercmd

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/face/cli/frame"
	"weir/internal/face/server/managerapi"
	"weir/internal/test/goldentest"
)

var clusterTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeManager answers what a cluster of two nodes would.
type fakeManager struct{ api.Manager }

func (fakeManager) Cluster(context.Context) (api.Cluster, error) {
	return api.Cluster{Version: "1.2.3", Started: clusterTime.Add(-time.Hour), Address: "10.0.0.1:7470", Bus: "nats", BusUp: true, Nodes: 3, NodesUp: 2,
		Authority: api.Authority{Hash: "0a1b2c3d4e5f6071", Ends: clusterTime.Add(3650 * 24 * time.Hour), CertificateEnds: clusterTime.Add(100 * time.Hour),
			Rotation: &api.Rotation{Started: clusterTime.Add(-3 * time.Hour), Nodes: 3, Renewed: 2, Behind: []string{"b"}, EndsBy: clusterTime.Add(13*24*time.Hour + 21*time.Hour)}},
		Waiting: 1, Running: 2, Refused: 4, Automatic: api.Automatic{Enabled: true, IntervalSeconds: 60, Above: 0.7, Hysteresis: 0.2, CooldownSeconds: 900, MovesAtOnce: 2,
			MovesPerHour: 20, QuietHours: []string{"22:00-06:00"}, Last: clusterTime.Add(-30 * time.Second), LastResult: "nothing is worth a move"}}, nil
}

func (fakeManager) Nodes(context.Context) ([]api.Node, error) {
	return []api.Node{
		{Name: "a", State: "up", Containers: 3, CPUCores: 1.5, CPUCapacity: 4, MemoryBytes: 3e9, MemoryTotal: 8e9, TransmitBps: 20.4e6, ReservedBps: 40e6,
			GuaranteedBps: 100e6, Engines: []string{"docker 26.1.5"}, CRIU: "4.2.1", CertificateEnds: clusterTime.Add(130 * time.Hour), Missing: []string{}},
		{Name: "b", State: "lost", CertificateEnds: clusterTime.Add(-time.Hour), Heard: clusterTime.Add(-90 * time.Second), Engines: []string{}, Missing: []string{}},
		{Name: "c", State: "joined", Engines: []string{}, Missing: []string{}},
	}, nil
}

func (fakeManager) Containers(context.Context) ([]api.ClusterContainer, error) {
	return []api.ClusterContainer{
		{Name: "db", Node: "b", Image: "postgres:17", CPUCores: 0.5, MemoryBytes: 900e6, Weight: 1, MinBps: 40e6, Pinned: true},
		{Name: "web", Node: "a", Image: "nginx", CPUCores: 1, MemoryBytes: 120e6, TransmitBps: 20e6, Weight: 3, MaxBps: 60e6, RefusedMinBps: 20e6, Move: "m-1"},
	}, nil
}

func (fakeManager) Plan(context.Context, api.PlanRequest) (api.ClusterPlan, error) {
	return api.ClusterPlan{Algorithm: "local", Alpha: 0.85, Above: 0.7, Calm: 1, Seconds: 0.012,
		Before: api.ClusterFit{S: 0.1234, FreeBps: 60e6, FreeNode: "a"}, After: api.ClusterFit{S: 0.0123, FreeBps: 80e6, FreeNode: "b"},
		Moves: []api.PlanMove{{Container: "web", From: "a", To: "b", Why: "evens out cpu between a and b", S: 0.0123, Bytes: 120e6, Seconds: 8.2}},
		Nodes: []api.PlanNode{{Name: "a", Before: api.NodeLoad{Containers: 3, CPU: 0.9, Memory: 0.5, FreeBps: 60e6}, After: api.NodeLoad{Containers: 2, CPU: 0.5, Memory: 0.4, FreeBps: 60e6}},
			{Name: "b", Before: api.NodeLoad{Containers: 1, CPU: 0.5, FreeBps: 80e6}, After: api.NodeLoad{Containers: 2, CPU: 0.6, FreeBps: 80e6}}},
		Held:     []api.PlanHeld{{Container: "db", Node: "b", Why: "label weir.pinned"}},
		Refusals: []string{"c does not accept containers of a (cluster.accept_from)"},
		Unknown:  []string{"c"}}, nil
}

func (f fakeManager) Rebalance(ctx context.Context, r api.PlanRequest) (api.ClusterPlan, error) {
	p, err := f.Plan(ctx, r)
	p.Applied, p.Moves[0].ID = true, "m-20260301-120000-abcdef"
	return p, err
}

func (fakeManager) Moves(context.Context) ([]api.Move, error) {
	return []api.Move{{ID: "m-1", Container: "web", From: "a", To: "b", Why: "weir migrate", State: "done", Step: "forget", Bytes: 2.1e6, DownMS: 1750,
		Created: clusterTime.Add(-8 * time.Second), Ended: clusterTime, Guarantee: "min of 20 Mbit/s for web holds on b",
		Steps: []api.MoveStep{{Step: "freeze", DurationMS: 210}, {Step: "send checkpoint", Bytes: 2.1e6, DurationMS: 80}}}}, nil
}

func (f fakeManager) Move(ctx context.Context, id string) (api.Move, error) {
	list, _ := f.Moves(ctx)
	if !strings.HasPrefix(list[0].ID, id) {
		return api.Move{}, &refusal.Error{Kind: refusal.Unknown, Field: "move", Value: id, Msg: "no move has this id", Remedy: "weir moves lists them"}
	}
	return list[0], nil
}

func (f fakeManager) Migrate(ctx context.Context, r api.MoveRequest, _ bool) (api.Move, error) {
	if r.To != "b" {
		return api.Move{}, &refusal.Error{Kind: refusal.Unknown, Field: "to", Value: r.To, Msg: "no node has this name", Remedy: "weir nodes lists them"}
	}
	list, err := f.Moves(ctx)
	return list[0], err
}

func (f fakeManager) CancelMove(ctx context.Context, id string, dryRun bool) (api.Cancellation, error) {
	mv, err := f.Move(ctx, id)
	return api.Cancellation{Effect: "asked", Text: "a is asked to go back; it does unless the copy on b was confirmed before", Move: mv, DryRun: dryRun}, err
}

func (fakeManager) Snapshot(context.Context) (api.Snapshot, error) {
	return api.Snapshot{Created: clusterTime, Nodes: 3, Moves: 1, Data: []byte("a snapshot")}, nil
}

func (fakeManager) RemoveNode(_ context.Context, name string) (api.Node, error) {
	return api.Node{Name: name, Engines: []string{}, Missing: []string{}}, nil
}

func (fakeManager) Tokens(context.Context) ([]api.Token, error) {
	return []api.Token{{ID: "3fa9c1", Expires: clusterTime.Add(time.Hour), Joined: 2, Uses: api.AnyNumber}, {ID: "77aa00", Node: "x", Uses: 1, Expires: clusterTime.Add(-time.Hour)}}, nil
}

func (fakeManager) NewToken(context.Context, api.TokenRequest) (api.Token, error) {
	return api.Token{Token: "weir1.x.y.z"}, nil
}

func (fakeManager) RevokeToken(_ context.Context, id string) (api.Token, error) {
	return api.Token{ID: id}, nil
}

func TestClusterRenderings(t *testing.T) {
	f, ctx := fakeManager{}, t.Context()
	st, _ := f.Cluster(ctx)
	nodes, _ := f.Nodes(ctx)
	containers, _ := f.Containers(ctx)
	plan, _ := f.Plan(ctx, api.PlanRequest{})
	moves, _ := f.Moves(ctx)
	tokens, _ := f.Tokens(ctx)
	for name, text := range map[string]string{
		"manager-status": renderCluster(st, clusterTime),
		"manager-images": imagesText(api.Images{Bytes: 31_400_000_000, LimitBytes: 100e9, NodeLimitBytes: 20e9, Nodes: map[string]uint64{"b": 12e9, "a": 19_400_000_000, "": 5}, Uploads: 2, Refused: 7}),
		"nodes":          renderNodes(nodes, clusterTime),
		"nodes-none":     renderNodes(nil, clusterTime),
		"ps":             renderContainers(containers),
		"plan":           renderPlan(plan),
		"plan-nothing":   renderPlan(api.ClusterPlan{Algorithm: "local", Alpha: 0.85}),
		"plan-calm":      renderPlan(api.ClusterPlan{Algorithm: "local", Alpha: 0.85, Above: 0.7, Calm: 2, Nodes: []api.PlanNode{{Name: "a"}, {Name: "b"}}}),
		"moves":          renderMoves(moves, clusterTime),
		"move":           renderMove(moves[0]),
		"tokens":         renderTokens(tokens, clusterTime),
	} {
		t.Run(name, func(t *testing.T) { goldentest.Check(t, filepath.Join("testdata", "cluster-"+name+".golden"), text) })
	}
}

// TestClusterCommands runs each against a manager's socket.
func TestClusterCommands(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "manager.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: managerapi.Handler(fakeManager{}, slog.New(slog.NewTextHandler(io.Discard, nil)))}
	go srv.Serve(ln)
	t.Cleanup(func() { srv.Close() })
	for _, c := range []struct {
		args string
		code int
		want string // in the output, on either stream
	}{
		{"manager status", 0, "2 of 3 heard of lately"},
		{"nodes", 0, "docker 26.1.5, criu 4.2.1"},
		{"nodes -o json", 0, `"state": "lost"`},
		{"ps --node a", 0, "min of 20 Mbit/s refused, moving (m-1)"},
		{"plan -o yaml", 0, "algorithm: local"},
		{"plan --alpha 2", 2, "alpha"},
		{"plan --above 70", 2, "above"},
		{"rebalance", 0, "weir rebalance --apply does it"},
		{"rebalance --apply", 0, "m-20260301-120000-abcdef"},
		{"moves", 0, "m-1"},
		{"moves m-1", 0, "send checkpoint"},
		{"moves x", 6, `move "x": no move has this id; weir moves lists them`},
		{"moves cancel m-1", 0, "move m-1 of web: asked: a is asked to go back"},
		{"moves cancel m-1 --dry-run", 0, "dry run, nothing was done"},
		{"moves cancel", 2, "ID is missing"},
		{"migrate web --to b", 0, "web runs on b: down for 1.75 s"},
		{"migrate web --to x", 6, `to "x": no node has this name`},
		{"manager remove a", 0, "removed node a"},
		{"manager token create", 0, "weir1.x.y.z"},
		{"manager token create --ttl 0s", 2, "--ttl"},
		{"manager token create --uses 0", 2, "NUMBER of nodes that may join by it, or unlimited"},
		{"manager token create --uses unlimited", 0, "weir1.x.y.z"},
		{"manager token list", 0, "3fa9c1"},
		{"manager token revoke 3fa9c1", 0, "revoked token 3fa9c1"},
		{"manager snapshot /proc/version", 5, "exists"},
		{"manager snapshot -", 0, "a snapshot"},
		{"manager toke", 2, "did you mean weir manager token?"},
		{"nodes --manager-socket /nowhere/manager.sock", 3, "no manager at /nowhere/manager.sock; run this on the manager's host"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Setenv("WEIR_MANAGER_SOCKET", socket)
			var out bytes.Buffer
			a := &frame.App{Streams: frame.Streams{Stdout: &out, Stderr: &out}}
			root, own := frame.NewRoot("", ""), Commands{a}
			root.AddCommand(own.Nodes(), own.Ps(), own.Plan(), own.Rebalance(), own.Moves(), own.Migrate(), own.Manager())
			if code := a.Execute(t.Context(), root, strings.Fields(c.args)); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("no %q in\n%s", c.want, &out)
			}
			if c.code != 0 && strings.Count(out.String(), "\n") != 1 {
				t.Errorf("more than one line:\n%s", &out)
			}
		})
	}
}
