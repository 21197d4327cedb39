// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/cluster/migrate/process"

	"github.com/docker/docker/api/types/container"
)

func TestErrorsAreOneLine(t *testing.T) {
	for _, c := range []struct{ said, want string }{
		{"Error response from daemon: OCI runtime restore failed: criu failed: type NOTIFY errno 0\nlog file: /run/x/work/restore.log: unknown",
			"OCI runtime restore failed: criu failed: type NOTIFY errno 0 unknown"},
		{`exit status 1: time="2026-11-22T04:58:27Z" level=error msg="criu failed: type DUMP errno 56\nlog file: /x/dump.log"`, "criu failed: type DUMP errno 56"},
		{"no space left on device", "no space left on device"},
	} {
		if got := oneLine(c.said); got != c.want {
			t.Errorf("%q became %q, want %q", c.said, got, c.want)
		}
	}
}

func TestTheReasonInALogOfCRIU(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dump.log")
	text := `(00.000144) Version: 4.2.1
(00.046743) Error (criu/cr-dump.c:1): Can't get rlimit 0: Operation not permitted
(00.146743) Error (criu/sk-inet.c:188): inet: Connected TCP socket, consider using --tcp-established option.
(00.166743) Error (compel/src/lib/infect.c:417): Unable to detach from 288: No such process
(00.246743) Error (criu/cr-dump.c:2128): Dumping FAILED.
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := process.LastError(file), "inet: Connected TCP socket, consider using --tcp-established option."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestACheckpointGetsTheCopysCgroup(t *testing.T) {
	was, is := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	f := folder{place: place{pid: os.Getpid()}, images: t.TempDir()}
	if err := f.adopt(was, is, ""); err != nil {
		t.Errorf("without cgroups: %v", err)
	}
	image := filepath.Join(f.images, "cgroup.img")
	if err := os.WriteFile(image, []byte("\x01\x0a\x49/docker/"+was+"\x12\x0fdocker/"+was+"/sub"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.adopt(was, is, ""); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(image)
	if want := "\x01\x0a\x49/docker/" + is + "\x12\x0fdocker/" + is + "/sub"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if f.adopt(is, "short", "") == nil {
		t.Error("an id of another length would break the image")
	}
}

// TestAContainerWithoutAName is one that its engine removes just now.
func TestAContainerWithoutAName(t *testing.T) {
	for want, c := range map[string]container.Summary{"web": {Names: []string{"/web"}}, "0123456789ab": {ID: "0123456789abcdef"}, "01": {ID: "01"}} {
		if got := nameOf(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}
