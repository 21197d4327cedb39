// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os"
	"path/filepath"
	"testing"
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
(00.246743) Error (criu/cr-dump.c:2128): Dumping FAILED.
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := lastError(file), "inet: Connected TCP socket, consider using --tcp-established option."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
