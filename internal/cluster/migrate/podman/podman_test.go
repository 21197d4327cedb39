// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/cluster/clustertest/counter"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// node is a podman with a store of its own, which it sees at the same path as the
// other: in a mount namespace.
type node struct {
	*Engine
	local   *migrate.Local
	command []string
}

func newNode(t *testing.T, dir, name string) *node {
	t.Helper()
	own, shared := filepath.Join(dir, name), filepath.Join(dir, "store")
	for _, d := range []string{own, shared} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	holder := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind "$0" "$1" && echo up && exec sleep 3600`, own, shared)
	holder.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill(); _ = holder.Wait() })
	n := &node{command: []string{
		"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", holder.Process.Pid), "--", "podman",
		"--root", shared + "/root", "--runroot", shared + "/run", "--cgroup-manager", "cgroupfs", "--runtime", "runc",
	}}
	if n.Engine, err = Open(filepath.Join(dir, "archives-"+name), n.command...); err != nil {
		t.Fatal(err)
	}
	if n.local, err = migrate.NewLocal(name, n.Engine, filepath.Join(dir, "agent-"+name), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := n.run(context.Background(), "rm", "--all", "--force", "-t", "0")
		_, moreErr := n.run(context.Background(), "rmi", "--all", "--force")
		if err := errors.Join(err, moreErr, n.local.Close()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// podman runs a command that has to work.
func (n *node) podman(t *testing.T, args ...string) string {
	t.Helper()
	out, err := n.run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// count waits until the counter has come past a number.
func (n *node) count(t *testing.T, past int) counter.Count {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		r, err := n.inspect(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", r.State.Pid, counter.File))
		if err == nil {
			c, err := counter.Check(bytes.NewReader(text[:bytes.LastIndexByte(text, '\n')+1]))
			if err == nil && c.Last > past {
				return c
			}
			if err != nil && past > 0 {
				t.Fatal(err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("it has not come past %d: %v", past, err)
		}
	}
}

// testBed is two Podmans, the first with the counter's image.
type testBed struct {
	dir      string
	a, b     *node
	journals migrate.Journals
}

func newBed(t *testing.T) *testBed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it needs root")
	}
	for _, program := range []string{"podman", "criu", "conmon", "runc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s: scripts/deps cluster installs it", program)
		}
	}
	dir, err := os.MkdirTemp("", "weir-podman-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	bed := &testBed{dir: dir, a: newNode(t, dir, "a"), b: newNode(t, dir, "b"), journals: migrate.Journals{Dir: filepath.Join(dir, "journals")}}
	root := filepath.Join(dir, "rootfs")
	if err := os.MkdirAll(root+"/state", 0o755); err != nil {
		t.Fatal(err)
	}
	// WEIR_COUNTER is the counter, compiled, for machines without Go.
	build := exec.Command("go", "build", "-o", root+"/counter", "weir/internal/cluster/clustertest/counter/cmd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if program := os.Getenv("WEIR_COUNTER"); program != "" {
		build = exec.Command("cp", program, root+"/counter")
	}
	for _, cmd := range []*exec.Cmd{build, exec.Command("tar", "-C", root, "-cf", dir+"/image.tar", ".")} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", cmd.Args, err, out)
		}
	}
	bed.a.podman(t, "import", dir+"/image.tar", "counter:1")
	return bed
}

// start runs the counter on the first node. Limits are named since root of a container
// may not be allowed to raise them.
func (b *testBed) start(t *testing.T, args ...string) {
	t.Helper()
	b.a.podman(t, append([]string{"run", "-d", "--name", "web", "--network", "none", "--env", "A=1", "--label", "weir.weight=3",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "counter:1", "/counter"}, args...)...)
	b.a.count(t, 2)
}

// move migrates the counter, which has to go on exactly.
func (b *testBed) move(t *testing.T, from, to *node, id string) migrate.Result {
	t.Helper()
	p, err := migrate.Check(t.Context(), from.local, to.local, migrate.Request{Move: id, Container: "web"})
	if err == nil {
		err = p.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	j, err := b.journals.Begin(p.Order)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r, err := migrate.Run(t.Context(), from.local, to.local, j, nil)
	if err != nil || r.State != wire.MoveDone || r.Approach != migrate.ApproachBundle {
		t.Fatalf("%s by %s: %v: %s", r.State, r.Approach, err, r.Err)
	}
	c := to.count(t, 0)
	c = to.count(t, c.Last+3)
	if c.First != 0 || c.Starts != 1 {
		t.Errorf("its file begins at %d and it has started %d times", c.First, c.Starts)
	}
	if left := strings.TrimSpace(from.podman(t, "ps", "--all", "--quiet")); left != "" {
		t.Errorf("%s stayed behind", left)
	}
	t.Logf("down for %v, the program has seen %v, %d bytes", r.Downtime, c.Gap, r.Bytes)
	for _, s := range r.Steps {
		t.Logf("  %-16s %6d ms %10d bytes (%d raw) down=%v %s", s.Step, s.Duration.Milliseconds(), s.Outcome.Bytes, s.Outcome.Raw, s.Down, s.Outcome.Note)
	}
	return r
}

// nothingLeft checks that no archive stayed behind.
func (b *testBed) nothingLeft(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(b.dir, "archives-*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// TestMemoryIsCopiedAhead: what has not changed since is not sent again while the
// container stands still.
func TestMemoryIsCopiedAhead(t *testing.T) {
	bed := newBed(t)
	f, err := bed.a.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !f.SoftDirty {
		t.Skip("this kernel has no soft-dirty pages (CONFIG_MEM_SOFT_DIRTY)")
	}
	const mib = 32
	bed.start(t, fmt.Sprintf("mib=%d", mib))
	for i, way := range [][2]*node{{bed.a, bed.b}, {bed.b, bed.a}} {
		var ahead, down int64
		for _, s := range bed.move(t, way[0], way[1], fmt.Sprintf("m%d", i)).Steps {
			switch {
			case s.Step == "send memory":
				ahead = s.Outcome.Raw
			case s.Step == "send archive" && s.Down:
				down = s.Outcome.Raw
			}
		}
		// How many pages the program and its runtime touch meanwhile grows with the time
		// that the machine takes. Without tracking it would be all of them.
		if ahead < mib<<20 || down > mib<<20/4*3 {
			t.Errorf("%d bytes were copied ahead and %d while it stood still, of %d MiB of memory", ahead, down, mib)
		}
	}
	// Back on the node itself, out of both parts.
	c, err := bed.a.Describe(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	o := migrate.MoveSpec{Move: "back", Container: c, From: "a", To: "b", Approach: migrate.ApproachBundle, PreCopy: true}
	for _, step := range []move.Step{move.PreCopy, move.Freeze, move.Thaw} {
		if _, err := bed.a.Do(t.Context(), step, o); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	now := bed.a.count(t, 0)
	if now = bed.a.count(t, now.Last+3); now.Starts != 1 {
		t.Errorf("it has started %d times", now.Starts)
	}
	bed.nothingLeft(t)
}

func TestACounterGoesOn(t *testing.T) {
	bed := newBed(t)
	bed.start(t, "mib=8")
	a := bed.a
	for i, way := range [][2]*node{{bed.a, bed.b}, {bed.b, bed.a}} {
		bed.move(t, way[0], way[1], fmt.Sprintf("m%d", i))
	}
	// Back on the node itself, when the other refuses.
	c, err := a.Describe(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	o := migrate.MoveSpec{Move: "back", Container: c, From: "a", To: "b", Approach: migrate.ApproachBundle}
	for _, step := range []move.Step{move.Freeze, move.Freeze, move.Thaw, move.Thaw} {
		if _, err := a.Do(t.Context(), step, o); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	now := a.count(t, 0)
	if now = a.count(t, now.Last+3); now.Starts != 1 {
		t.Errorf("it has started %d times", now.Starts)
	}
	bed.nothingLeft(t)
}
