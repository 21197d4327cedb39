// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/clustertest/counter"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker"
)

// bed is a cluster whose nodes can migrate.
type bed struct {
	*clustertest.Cluster
	t        *testing.T
	journals migrate.Journals
	nodes    map[string]*migrate.Local
	moves    *atomic.Int64
}

func newBed(t *testing.T, o clustertest.Options) *bed {
	t.Helper()
	b := &bed{Cluster: clustertest.ForTest(t, o), t: t, nodes: map[string]*migrate.Local{}, moves: &atomic.Int64{}}
	b.journals.Dir = filepath.Join(b.Dir, "journals")
	for _, n := range b.Nodes() {
		b.nodes[n.Name] = b.local(n)
		if n != b.Nodes()[0] {
			b.must(clustertest.CopyImage(t.Context(), b.Nodes()[0], n, clustertest.CounterImage))
		}
	}
	return b
}

// local makes the Node of a cluster's node, as an agent that starts does.
func (b *bed) local(n *clustertest.Node) *migrate.Local {
	b.t.Helper()
	e, err := docker.Open("unix://" + n.Socket)
	b.must(err)
	l, err := migrate.NewLocal(n.Name, e, filepath.Join(b.Dir, "agent-"+n.Name), slog.New(slog.DiscardHandler))
	b.must(err)
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// start runs a counter.
func (b *bed) start(node, name string, change func(*container.Config, *container.HostConfig), args ...string) {
	b.t.Helper()
	c := &container.Config{Image: clustertest.CounterImage, Cmd: args, StopSignal: "SIGKILL", Labels: map[string]string{"weir.weight": "3"}}
	h := &container.HostConfig{}
	if change != nil {
		change(c, h)
	}
	cli := b.Node(node).Docker()
	made, err := cli.ContainerCreate(b.t.Context(), c, h, nil, nil, name)
	b.must(err)
	b.must(cli.ContainerStart(b.t.Context(), made.ID, container.StartOptions{}))
	b.waitCount(node, name, 2)
}

// waitCount waits until a counter has come past n.
func (b *bed) waitCount(node, name string, n int) counter.Count {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		c, err := b.Node(node).Count(b.t.Context(), name)
		if err == nil && c.Last > n {
			return c
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("%s on %s has not come past %d: %+v, %v", name, node, n, c, err)
		}
	}
}

// check makes the pre-flight.
func (b *bed) check(name, from, to string, r migrate.Request) migrate.Plan {
	b.t.Helper()
	r.Container, r.Move = name, fmt.Sprintf("t%d", b.moves.Add(1))
	p, err := migrate.Check(b.t.Context(), b.nodes[from], b.nodes[to], r)
	b.must(err)
	return p
}

// migrate moves a container and returns what came of it.
func (b *bed) migrate(name, from, to string, r migrate.Request) migrate.Result {
	b.t.Helper()
	p := b.check(name, from, to, r)
	b.must(p.Err())
	j, err := b.journals.Begin(p.Order)
	b.must(err)
	defer j.Close()
	result, err := migrate.Run(context.WithoutCancel(b.t.Context()), b.nodes[from], b.nodes[to], j, nil)
	b.must(err)
	return result
}

func steps(r migrate.Result) (text string) {
	for _, s := range r.Steps {
		text += fmt.Sprintf("\n  %-4s %-16s %6d ms %10d bytes (%d raw) down=%v %s%s", s.Node, s.Step, s.Duration.Milliseconds(), s.Outcome.Bytes, s.Outcome.Raw, s.Down, s.Outcome.Note, s.Err)
	}
	return text
}
