// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestParseLdd(t *testing.T) {
	const output = `	linux-vdso.so.1 (0x00007ffd0b5c4000)
	libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f2b6ba00000)
	/lib64/ld-linux-x86-64.so.2 (0x00007f2b6bd9a000)
`
	want := []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"}
	if got := parseLdd(output); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEngine runs a container in a private engine and sees that its bridge is
// in the engine's namespace, and that nothing stays behind.
func TestEngine(t *testing.T) {
	var dir, cgroup string
	t.Run("runs", func(t *testing.T) {
		e := ForTest(t)
		dir, cgroup = e.dir, e.cgroup()
		e.MustRun(t, Container{Name: "one", Restart: "always"})
		if !cgroupExists(cgroup) {
			t.Errorf("no cgroup %s: the containers are in a cgroup of the host's", cgroup)
		}
		if err := e.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		links, err := e.Command(t.Context(), "ip", "-brief", "link").CombinedOutput()
		if err != nil || !bytes.Contains(links, []byte("docker0")) || !bytes.Contains(links, []byte("veth")) {
			t.Errorf("no bridge or no veth in the engine's namespace: %v:\n%s", err, links)
		}
	})
	if dir == "" {
		t.Skip("no engine ran, see above")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files stayed behind in %s (%v)", dir, err)
	}
	if cgroupExists(cgroup) {
		t.Errorf("cgroup %s stayed behind", cgroup)
	}
}

func cgroupExists(name string) bool {
	v1, _ := filepath.Glob("/sys/fs/cgroup/*" + name)
	v2, _ := filepath.Glob("/sys/fs/cgroup" + name)
	return len(v1)+len(v2) > 0
}
