// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
)

// TestBackWithItsVolumes: a container with volumes, named and not, goes back with its memory, and
// has the volumes that it had.
func TestBackWithItsVolumes(t *testing.T) {
	bed := newBed(t)
	a := bed.a
	a.podman(t, "run", "-d", "--name", "web", "--network", "none", "--restart", "always", "--volume", "data:/data", "--volume", "/cache",
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "counter:1", "/counter")
	now := a.count(t, 2)
	r, err := a.inspect(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("/proc/%d/root/data/file", r.State.Pid)
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	volumes := a.podman(t, "volume", "ls", "--quiet")
	c, err := a.Describe(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	o := migrate.MoveSpec{Move: "back", Container: c, From: "a", To: "b", Approach: migrate.ApproachBundle}
	for _, step := range []move.Step{move.Freeze, move.Thaw} {
		if _, err := a.Do(t.Context(), step, o); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	if now = a.count(t, now.Last+3); now.Starts != 1 {
		t.Errorf("it has started %d times", now.Starts)
	}
	if r, err = a.inspect(t.Context(), "web"); err != nil || r.HostConfig.RestartPolicy.Name != "always" {
		t.Errorf("its restart policy is %q, %v", r.HostConfig.RestartPolicy.Name, err)
	}
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/data/file", r.State.Pid)); err != nil || string(text) != "kept" {
		t.Errorf("its file has %q, %v", text, err)
	}
	if after := a.podman(t, "volume", "ls", "--quiet"); after != volumes {
		t.Errorf("volumes %q, were %q", strings.Fields(after), strings.Fields(volumes))
	}
	bed.nothingLeft(t)
}

// TestRestartPolicies: while and after a container with a restart policy moves, nothing at its
// source starts it anew, as podman-restart.service does at each boot. At the target it has its
// policy, and at the source no volume without a name is left of it.
func TestRestartPolicies(t *testing.T) {
	bed := newBed(t)
	boot := func(n *node, policy string) {
		t.Helper()
		n.podman(t, "start", "--all", "--filter", "restart-policy="+policy)
	}
	from, to := bed.a, bed.b
	for _, policy := range []string{"always", "unless-stopped", "on-failure"} {
		bed.a.podman(t, "run", "-d", "--name", "web", "--network", "none", "--restart", policy, "--volume", "/cache",
			"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "counter:1", "/counter")
		bed.a.count(t, 2)
		c, err := from.Describe(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		o := migrate.MoveSpec{Move: "back-" + policy, Container: c, From: "a", To: "b", Approach: migrate.ApproachBundle}
		if _, err := from.Do(t.Context(), move.Freeze, o); err != nil {
			t.Fatal(err)
		}
		boot(from, policy)
		if running := from.podman(t, "ps", "--quiet"); running != "" {
			t.Errorf("%s: it runs at the source although it is frozen: %s", policy, running)
		}
		if _, err := from.Do(t.Context(), move.Thaw, o); err != nil {
			t.Fatal(err)
		}
		bed.move(t, from, to, "m-"+policy)
		boot(from, policy)
		if running := from.podman(t, "ps", "--all", "--quiet"); running != "" {
			t.Errorf("%s: %s is left at the source", policy, running)
		}
		if volumes := from.podman(t, "volume", "ls", "--quiet"); volumes != "" {
			t.Errorf("%s: volumes %q are left at the source", policy, volumes)
		}
		if r, err := to.inspect(t.Context(), "web"); err != nil || r.HostConfig.RestartPolicy.Name != policy {
			t.Errorf("at the target its policy is %q, %v; want %s", r.HostConfig.RestartPolicy.Name, err, policy)
		}
		to.podman(t, "rm", "--force", "--volumes", "-t", "0", "web")
	}
	bed.nothingLeft(t)
}
