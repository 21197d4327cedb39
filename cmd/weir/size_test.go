// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// methodsByName finds, in what the linker says, functions that look up methods by a name or a
// number that it cannot know.
var methodsByName = regexp.MustCompile(`(?m)^(\S+) <ReflectMethod> -> `)

// TestSize: what a release has on each host is at most 40 MB, and has no function that makes the
// linker keep every exported method of every type (decision 62).
func TestSize(t *testing.T) {
	const most = 40_000_000
	dir := t.TempDir()
	program := filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-overlay", another(t, dir), "-ldflags", "-s -w -dumpdep", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOFLAGS=")
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	if !bytes.Contains(out, []byte("main.main -> ")) {
		t.Error("the linker does not say what refers to what")
	}
	found := map[string]bool{}
	for _, m := range methodsByName.FindAllSubmatch(out, -1) {
		if name := string(m[1]); !found[name] {
			found[name] = true
			t.Errorf("%s looks up methods by name, so the linker keeps all exported ones", name)
		}
	}
	info, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", info.Size())
	if info.Size() > most {
		t.Errorf("weir has %d bytes, %d are the most; scripts/footprint says which libraries they are of", info.Size(), most)
	}
}

// another returns an overlay that makes the program another one to go build, by an empty file. With
// -trimpath it takes programs that differ by linker flags for the same, and prints again in
// make build what the linker said here, 154,000 lines.
func another(t *testing.T, dir string) (overlay string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	empty, overlay := filepath.Join(dir, "empty.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, "empty.go"): empty}})
	if err := errors.Join(err, os.WriteFile(empty, []byte("package main\n"), 0o600), os.WriteFile(overlay, text, 0o600)); err != nil {
		t.Fatal(err)
	}
	return overlay
}
