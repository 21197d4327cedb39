// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/internal/cluster/migrate"
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
	o := migrate.Order{Move: "back", Container: c, From: "a", To: "b", Approach: migrate.ApproachBundle}
	for _, step := range []migrate.Step{migrate.StepFreeze, migrate.StepThaw} {
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
