// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"weir/internal/cluster/move"
	"weir/internal/core/accept"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/docker"
	"weir/internal/test/dockertest"
)

// changeable is an engine that is replaced while a node uses it.
type changeable struct {
	migrate.Engine
	real atomic.Pointer[docker.Engine]
}

// now returns the engine of the moment.
func (c *changeable) now() migrate.Engine {
	if e := c.real.Load(); e != nil {
		return e
	}
	return c.Engine
}

// held is all that a Docker engine has, as text.
func held(t *testing.T, d *dockertest.Engine) string {
	t.Helper()
	ctx := t.Context()
	var lines []string
	containers, err := d.Client().ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		r, err := d.Client().ContainerInspect(ctx, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprint("container ", c.ID, r.Name, r.Image, r.State.Status, r.State.Pid, r.State.StartedAt, r.HostConfig.RestartPolicy, r.Mounts))
	}
	images, err := d.Client().ImageList(ctx, image.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		lines = append(lines, fmt.Sprint("image ", i.ID, i.RepoTags))
	}
	volumes, err := d.Client().VolumeList(ctx, volume.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Volumes {
		lines = append(lines, fmt.Sprint("volume ", v.Name, v.CreatedAt))
	}
	networks, err := d.Client().NetworkList(ctx, network.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range networks {
		lines = append(lines, fmt.Sprint("network ", n.Name, n.ID))
	}
	files, err := d.Command(ctx, "find", d.Dir(), "-name", "weir*").Output()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.Join(append(lines, "files "+string(files)), "\n")
}

// TestHostileNodeAndADocker is TestHostileNode with a real engine behind the node that is
// attacked: after 400 calls Docker has the containers, images, volumes and networks of
// before, and what runs was not restarted. No call is answered by a success; those that
// the node refuses by itself, all but parts of the one move that was begun, are counted
// and logged.
func TestHostileNodeAndADocker(t *testing.T) {
	const calls = 400
	daemon := dockertest.ForTest(t)
	t.Logf("seed %d", *seed)
	c := newCluster(t)
	there := &changeable{}
	c.helper = func(o Options, e migrate.Engine) migrate.Engine {
		if o.Name != "b" {
			return e
		}
		there.Engine = e
		return there
	}
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.world.put("a", "web")
	c.world.put("a", "old")
	c.up(2)
	c.seen(2)
	c.moved2("old", "b") // whose grant is used
	if !eventually(func() bool { return len(b.unsettled()) == 0 }) {
		t.Fatal("what came with a container is not dealt with")
	}
	h := newHostile(t, c, a, []*testNode{b})
	for _, name := range []string{"web", "db", "cache"} {
		daemon.MustRun(t, dockertest.Container{Name: name})
	}
	if _, err := daemon.Client().VolumeCreate(t.Context(), volume.CreateOptions{Name: "secrets"}); err != nil {
		t.Fatal(err)
	}
	real, err := docker.Open(daemon.Client().DaemonHost())
	if err != nil {
		t.Fatal(err)
	}
	real.Guard(accept.Rules{})
	there.real.Store(real)
	before, counted := held(t, daemon), b.refusedCalls()
	begun, byEngine := time.Now(), 0
	for i := range calls {
		x, name := h.draw()
		status, answer := x.send(t, h.clients["b"])
		if status == http.StatusOK {
			t.Fatalf("call %d, %s: answers %s", i, name, answer)
		}
		switch n := b.refusedCalls(); {
		case n == counted+1:
			counted = n
		case n == counted && name == "receive with grant that is in use":
			byEngine++ // which has no copy to put it into
		default:
			t.Fatalf("call %d, %s: %d refusals counted, %d before it: %s", i, name, n, counted, answer)
		}
	}
	if lines, logged := b.loggedRefusals(); lines == 0 || lines > mostRefusals(begun) || logged > counted {
		t.Errorf("%d of %d refusals are in the log, in %d lines", logged, counted, lines)
	}
	if after := held(t, daemon); after != before {
		t.Errorf("Docker had\n%s\nand has\n%s", before, after)
	}
	t.Logf("%d calls refused by the node, %d by Docker's engine", calls-byEngine, byEngine)
}

func (c *changeable) Facts(ctx context.Context) (migrate.Facts, error) { return c.now().Facts(ctx) }
func (c *changeable) Describe(ctx context.Context, name string) (migrate.Container, error) {
	return c.now().Describe(ctx, name)
}
func (c *changeable) Lacking(ctx context.Context, o migrate.MoveSpec) ([]migrate.PreflightFinding, error) {
	return c.now().Lacking(ctx, o)
}
func (c *changeable) Do(ctx context.Context, step move.Step, o migrate.MoveSpec) (migrate.StepOutcome, error) {
	return c.now().Do(ctx, step, o)
}
func (c *changeable) Send(ctx context.Context, p migrate.Part, o migrate.MoveSpec, w io.Writer) (migrate.StepOutcome, error) {
	return c.now().Send(ctx, p, o, w)
}
func (c *changeable) Receive(ctx context.Context, p migrate.Part, o migrate.MoveSpec, r io.Reader) (migrate.StepOutcome, error) {
	return c.now().Receive(ctx, p, o, r)
}
func (c *changeable) Copy(ctx context.Context, move string) (string, bool, error) {
	return c.now().Copy(ctx, move)
}
func (c *changeable) Hold(ctx context.Context, o migrate.MoveSpec) error { return c.now().Hold(ctx, o) }
func (c *changeable) Release(ctx context.Context, o migrate.MoveSpec) error {
	return c.now().Release(ctx, o)
}
