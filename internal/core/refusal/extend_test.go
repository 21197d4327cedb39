// SPDX-License-Identifier: Apache-2.0

package refusal_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/test/extendtest"
)

// TestNewKind adds a kind to a copy of the tree as docs/extend.md says, by a constant and a
// row, and sees its status, its exit code, its place in OpenAPI and in the documents.
func TestNewKind(t *testing.T) {
	c := extendtest.Copy(t, "../../..")
	code := c.Code("docs/extend.md", "## A refusal")
	if len(code) != 2 {
		t.Fatalf("docs/extend.md shows %d blocks of code for a refusal, want a constant and a row", len(code))
	}
	c.After("internal/core/refusal/kind.go", `Timeout  Kind =`, code[0])
	c.After("internal/core/refusal/kind.go", `{Timeout, Failed,`, code[1])
	c.Go("test", "-run", "Kind|Problem|OpenAPI|Is$|In$", "-skip", "TestNewKind", "./internal/core/refusal", "./internal/api", "./internal/face/server")
	c.Go("test", "./internal/face/cli", "-run", "TestKindsInDocs", "-update")
	const row = "| `frozen` | 409 | 5 | the controller was frozen by hand |"
	if !strings.Contains(c.Read("docs/api.md"), "\n"+row+"\n") {
		t.Errorf("docs/api.md has no row %s", row)
	}
	program := filepath.Join(c.Root, "weir")
	c.Go("build", "-o", program, "./cmd/weir")
	for kind, want := range map[string]int{"frozen": 5, "unheard_of": 1} {
		if got := exitCode(t, program, answering(t, `{"kind":"`+kind+`","status":500,"detail":"no"}`)); got != want {
			t.Errorf("kind %s: exit code %d, want %d", kind, got, want)
		}
	}
}

// answering returns a socket at which every request fails with a body, and status 500.
func answering(t *testing.T, body string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, body)
	})}
	go func() { _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close() })
	return socket
}

func exitCode(t *testing.T, program, socket string) int {
	t.Helper()
	out, err := exec.Command(program, "set", "web", "--weight", "2", "--socket", socket).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out)
	}
	return exit.ExitCode()
}
