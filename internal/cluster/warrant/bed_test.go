// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
	"weir/internal/test/logtest"
)

// fakeEngine notes what it is asked.
type fakeEngine struct {
	mu    sync.Mutex
	asked []string
	order migrate.MoveSpec // of the last call that had one
}

func (e *fakeEngine) note(o migrate.MoveSpec, format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked, e.order = append(e.asked, fmt.Sprintf(format, args...)), o
}

func (e *fakeEngine) calls() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string{}, e.asked...)
}

func (e *fakeEngine) Kind() wire.EngineName { return wire.EngineDocker }
func (e *fakeEngine) Close() error          { return nil }
func (e *fakeEngine) Facts(context.Context) (migrate.Facts, error) {
	return migrate.Facts{Engine: "docker"}, nil // nothing that has to be permitted
}
func (e *fakeEngine) Describe(_ context.Context, name string) (migrate.Container, error) {
	e.note(migrate.MoveSpec{}, "describe %s", name)
	return migrate.Container{Name: name}, nil
}
func (e *fakeEngine) Lacking(_ context.Context, o migrate.MoveSpec) ([]migrate.PreflightFinding, error) {
	e.note(o, "lacking %s", o.Move)
	return nil, nil
}
func (e *fakeEngine) Do(_ context.Context, step move.Step, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	e.note(o, "%s %s", step, o.Move)
	return migrate.StepOutcome{Note: "done", ImageID: "sha256:made"}, nil
}
func (e *fakeEngine) Send(_ context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (migrate.StepOutcome, error) {
	e.note(o, "send %s %s", p, o.Move)
	_, err := io.WriteString(w, "bytes")
	return migrate.StepOutcome{}, err
}
func (e *fakeEngine) Receive(_ context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (migrate.StepOutcome, error) {
	e.note(o, "receive %s %s", p, o.Move)
	_, err := io.Copy(io.Discard, r)
	return migrate.StepOutcome{}, err
}
func (e *fakeEngine) Copy(_ context.Context, move string) (string, bool, error) {
	e.note(migrate.MoveSpec{}, "copy %s", move)
	return "c", true, nil
}
func (e *fakeEngine) Hold(_ context.Context, o migrate.MoveSpec) error {
	e.note(o, "hold %s", o.Move)
	return nil
}
func (e *fakeEngine) Release(_ context.Context, o migrate.MoveSpec) error {
	e.note(o, "release %s", o.Move)
	return nil
}

// bed is the helper of node b with a real socket, and the cluster's manager.
type bed struct {
	t         *testing.T
	dir       string
	authority pki.Authority
	manager   pki.Identity
	engine    *fakeEngine
	ledger    *Admissions
	agent     *remote.Engine // the taken-over agent's way to the helper
	stop      func()
	log       logtest.Buffer
	now       time.Time
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// newBed makes a helper for a node of a cluster.
func newBed(t *testing.T, node string) *bed {
	t.Helper()
	dir := must[string](t)(os.MkdirTemp("", "weir-warrant")) // t.TempDir is too long for a socket's path
	t.Cleanup(func() { os.RemoveAll(dir) })
	b := &bed{t: t, dir: dir, engine: &fakeEngine{}, now: time.Now()}
	b.authority = must[pki.Authority](t)(pki.NewAuthority(time.Now()))
	b.manager = b.newManager(b.authority)
	b.member(b.authority, node)
	b.start(Options{})
	t.Cleanup(func() { b.stop() })
	return b
}

// newManager returns an identity of the manager with a key of its own.
func (b *bed) newManager(a pki.Authority) pki.Identity {
	b.t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		b.t.Fatal(err)
	}
	id := pki.Identity{Authority: a.Cert, Bridges: a.Bridges, Key: key}
	if id.Cert, err = a.IssueManager(id.Public(), b.now); err != nil {
		b.t.Fatal(err)
	}
	return id
}

// member writes what the agent of a node has in its folder.
func (b *bed) member(a pki.Authority, node string) {
	b.t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		b.t.Fatal(err)
	}
	request := must[[]byte](b.t)(pki.Request(key))
	id := pki.Identity{Authority: a.Cert, Bridges: a.Bridges, Key: key}
	if id.Cert, err = a.IssueNode(node, request, b.now); err != nil {
		b.t.Fatal(err)
	}
	if err := id.Save(filepath.Join(b.dir, "identity")); err != nil {
		b.t.Fatal(err)
	}
}

// start runs a helper with what a former one has left.
func (b *bed) start(o Options) {
	b.t.Helper()
	o.Dir, o.Engine, o.Registry = filepath.Join(b.dir, "own"), "docker", "127.0.0.1:7474"
	o.Sources.Identity = filepath.Join(b.dir, "identity")
	o.Now, o.Log = func() time.Time { return b.now }, slog.New(slog.NewTextHandler(&b.log, nil))
	b.ledger = must[*Admissions](b.t)(Open(o))
	socket := filepath.Join(b.dir, "s")
	ln := must[net.Listener](b.t)(net.Listen("unix", socket))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- remote.NewHelper(b.engine, b.ledger, 0, o.Log).Serve(ctx, ln) }()
	b.agent = must[*remote.Engine](b.t)(remote.Open(socket, "docker"))
	b.stop = func() {
		cancel()
		<-ended
		ln.Close() // Serve may not have begun with it
		if err := b.ledger.Close(); err != nil {
			b.t.Error(err)
		}
		b.stop = func() {}
	}
}

// order describes a container as the order of a move.
func order(move, container, from, to string) migrate.MoveSpec {
	return migrate.MoveSpec{Move: move, From: from, To: to, Approach: migrate.ApproachCommit, Lease: time.Minute,
		Container: migrate.Container{ID: "id-" + container, Name: container, Engine: "docker", Running: true, Image: "img", ImageID: "sha256:1",
			Volumes: []migrate.Volume{{Name: "data"}}}}
}

// seal seals what the manager says to a node.
func (b *bed) seal(by pki.Identity, node string, m wire.Message) []byte {
	b.t.Helper()
	return must[[]byte](b.t)(wire.Seal(by.Key, wire.Manager, wire.Orders.Of(node), "x", b.now, m))
}

// granted returns the warrant for a move that the manager has granted.
func (b *bed) granted(o migrate.MoveSpec, deadline time.Time) remote.Warrant {
	b.t.Helper()
	text := must[[]byte](b.t)(json.Marshal(Proposal{Order: o}))
	g := wire.Grant{Manifest: ManifestOf(o, text), From: o.From, To: o.To, Registry: wire.OwnRegistry, Deadline: deadline}
	return remote.Warrant{Sealed: b.seal(b.manager, o.From, g), Manager: b.manager.Bundle(), Proposal: text}
}

// ordered returns the warrant for a pre-flight.
func (b *bed) ordered(o migrate.MoveSpec, deadline time.Time) remote.Warrant {
	m := wire.Move{ID: o.Move, Container: o.Container.Name, From: o.From, To: o.To, Deadline: deadline, Registry: wire.OwnRegistry}
	return remote.Warrant{Sealed: b.seal(b.manager, o.From, m), Manager: b.manager.Bundle()}
}

func (b *bed) admit(w remote.Warrant) error {
	return b.agent.Admit(remote.WithWarrant(b.t.Context(), w))
}

// hold is all that the helper has on its disk, but for what it counts.
func (b *bed) hold() string {
	b.t.Helper()
	var lines []string
	for _, file := range must[[]string](b.t)(filepath.Glob(filepath.Join(b.dir, "own", "moves", "*"))) {
		lines = append(lines, file+" "+string(must[[]byte](b.t)(os.ReadFile(file))))
	}
	return strings.Join(lines, "\n")
}
