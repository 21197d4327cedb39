// SPDX-License-Identifier: Apache-2.0

package podman

import (
	"strings"
	"testing"

	"weir/internal/cluster/migrate"
)

// TestWhatDependsOnAContainer: a container that shares or is to share a namespace of the one to
// move, or requires it, refuses the move by name, whether it runs or not. Without it the container
// moves.
func TestWhatDependsOnAContainer(t *testing.T) {
	bed := newBed(t)
	bed.start(t)
	for what, options := range map[string][]string{
		"network": {"--network", "container:web"},
		"IPC":     {"--network", "none", "--ipc", "container:web"},
		"process": {"--network", "none", "--pid", "container:web"},
		"start":   {"--network", "none", "--requires", "web"},
	} {
		create := append([]string{"create", "--name", "side", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"}, options...)
		bed.a.podman(t, append(create, "counter:1", "/counter")...)
		p, err := migrate.Check(t.Context(), bed.a.local, bed.b.local, migrate.Request{Move: "m-" + what, Container: "web"})
		if err != nil {
			t.Fatal(err)
		}
		if list := p.Refusals(); len(list) != 1 || list[0].Code != "shared-namespace" || !strings.Contains(list[0].Msg, "container side, which does not run") {
			t.Errorf("%s: refused by %v", what, list)
		}
		bed.a.podman(t, "start", "side")
		p, err = migrate.Check(t.Context(), bed.a.local, bed.b.local, migrate.Request{Move: "m-" + what, Container: "web"})
		if err != nil {
			t.Fatal(err)
		}
		if list := p.Refusals(); len(list) != 1 || list[0].Code != "shared-namespace" || !strings.HasPrefix(list[0].Msg, "container side ") {
			t.Errorf("%s, running: refused by %v", what, list)
		}
		bed.a.podman(t, "rm", "--force", "-t", "0", "side")
	}
	bed.move(t, bed.a, bed.b, "alone")
}
