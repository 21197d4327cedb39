// SPDX-License-Identifier: Apache-2.0

package servecmd

import (
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"weir/internal/core/accept"

	"golang.org/x/sys/unix"

	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
)

// An agent whose helper is there must not try what its own rights do not allow.
func TestAgentTakesTheHelperIfThereIsOne(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "helper")
	open := func() migrate.Engine {
		t.Helper()
		e, err := openEngine(t.Context(), socket, filepath.Join(dir, "docker.sock"), dir, accept.Rules{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { e.Close() })
		return e
	}
	if e, is := open().(*remote.Engine); is {
		t.Errorf("without a helper: %T", e)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if e, is := open().(*remote.Engine); !is || e.Kind() != "docker" {
		t.Errorf("with a helper: %T", e)
	}
}

// What Podman restores would keep the sandbox of the helper's unit.
func TestPodmanIsNotServedInASandbox(t *testing.T) {
	inSandbox := make(chan map[string]error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			t.Error(err)
		}
		inSandbox <- map[string]error{"podman": sandboxed("podman"), "docker": sandboxed("docker")}
	}()
	got := <-inSandbox
	if got["podman"] == nil || got["docker"] != nil || sandboxed("podman") != nil {
		t.Errorf("in a sandbox: %v; without: %v", got, sandboxed("podman"))
	}
}
