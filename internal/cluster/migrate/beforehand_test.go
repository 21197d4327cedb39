// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/migrate"
	"weir/internal/core/wire"
)

// TestNamedBeforehand: what CRIU cannot dump, and what would stay behind alone, refuses a move by
// its name before anything is touched, and once it is gone the container moves.
func TestNamedBeforehand(t *testing.T) {
	b := newBed(t, clustertest.Options{Nodes: []string{"a", "b"}})
	b.start("a", "ring", nil, "uring=1")
	b.start("a", "web", nil)
	refuses := func(name, code, says string) {
		t.Helper()
		p := b.check(name, "a", "b", migrate.Request{})
		if len(p.Refusals()) != 1 || p.Refusals()[0].Code != code || !strings.Contains(p.Refusals()[0].Msg, says) {
			t.Errorf("%s: refused by %v, want %s with %q", name, p.Refusals(), code, says)
		}
	}
	refuses("ring", "io-uring", "(counter) uses io_uring")
	b.must(b.Node("a").Remove(t.Context(), "ring"))

	for _, kind := range []string{"network", "IPC", "process"} {
		b.must(b.Node("a").Remove(t.Context(), "web"))
		b.start("a", "web", func(_ *container.Config, h *container.HostConfig) { h.IpcMode = "shareable" })
		b.start("a", "sidecar", func(_ *container.Config, h *container.HostConfig) {
			switch kind {
			case "network":
				h.NetworkMode = "container:web"
			case "IPC":
				h.IpcMode = "container:web"
			case "process":
				h.PidMode = "container:web"
			}
		})
		refuses("web", "shared-namespace", "container sidecar shares its "+kind)
		if kind == "network" {
			b.must(b.Node("a").Docker().ContainerStop(t.Context(), "sidecar", container.StopOptions{}))
			refuses("web", "shared-namespace", "container sidecar, which does not run")
		}
		b.must(b.Node("a").Remove(t.Context(), "sidecar"))
	}

	// It enters after the pre-flight.
	c, err := b.Node("a").Docker().ContainerInspect(t.Context(), "web")
	b.must(err)
	p := b.check("web", "a", "b", migrate.Request{})
	b.must(p.Err())
	shell := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", c.State.Pid), "sleep", "600")
	shell.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b.must(shell.Start())
	time.Sleep(200 * time.Millisecond)
	j, err := b.journals.Begin(p.Order)
	b.must(err)
	before := b.waitCount("a", "web", 0)
	r, err := migrate.Run(context.Background(), b.nodes["a"], b.nodes["b"], j, nil)
	b.must(err)
	b.must(j.Close())
	_ = shell.Process.Kill()
	_ = shell.Wait()
	after := b.waitCount("a", "web", before.Last+5)
	if r.State != wire.MoveRolledBack || !strings.Contains(r.Err, fmt.Sprintf("process %d (sleep) shares its network", shell.Process.Pid)) {
		t.Errorf("%s: %s%s", r.State, r.Err, steps(r))
	}
	if after.Starts != 1 || after.Gap > time.Second && before.Gap < time.Second {
		t.Errorf("it was touched: %+v", after)
	}
	if r := b.migrate("web", "a", "b", migrate.Request{}); r.State != wire.MoveDone {
		t.Errorf("alone: %s: %s%s", r.State, r.Err, steps(r))
	}
	if names, err := b.Node("b").Running(t.Context()); err != nil || !slices.Equal(names, []string{"web"}) {
		t.Errorf("on b: %q, %v", names, err)
	}
}
