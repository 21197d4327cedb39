// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var long = flag.Bool("long", false, "break the programs that tests run, and see the tests fail")

// TestBrokenOnPurpose: the steps of make test notice that a program is broken which their tests run
// and do not import. go test itself repeats an earlier result for those.
func TestBrokenOnPurpose(t *testing.T) {
	if !*long {
		t.Skip("builds and runs tests of a copy of the tree; -long does")
	}
	home := t.TempDir()
	listed, err := exec.Command("git", "-C", "../../..", "ls-files", "-z", "--cached", "--others", "internal", "cmd", "bpf", "scripts", "vm", "tools", "docs", "lab", "go.mod", "go.sum").Output() // with what make generate made
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(listed), "\x00"), "\x00") {
		from, to := filepath.Join("../../..", name), filepath.Join(home, name)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, file, at, broken, pkg, test string }{
		{"the agent", "cmd/weir/main.go", "func main() {", "func main() { os.Exit(3);", "internal/test/e2e", "TestBadConfiguration"},
		{"the simulator", "bpf/sim/sim.c", "#include", "#error broken\n#include", "internal/host/dataplane/bpf", "TestSFQ"},
		{"a script", "scripts/signature", "\nset -euo pipefail\n", "\nexit 0\n", "scripts", "TestSignature"},
		{"the machine", "vm/run", "\nset -Eeuo pipefail\n", "\nexit 0\n", "vm", "TestWrongCallsAreRefusedInOneLine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			step := native("native", []string{"weir/" + c.pkg}, nil)[0]
			step.Command = slices.Concat([]string{"go", "test", "-C", home}, step.Command[2:], []string{"-run", "^" + c.test + "$"})
			run := func() (bool, string) {
				t.Helper()
				var log bytes.Buffer
				r, err := step.run(t.Context(), nil, &log)
				if err != nil {
					t.Fatal(err)
				}
				return r.Passed && r.Ran > 0, log.String()
			}
			if passed, log := run(); !passed {
				t.Fatalf("%s fails before anything is broken:\n%s", c.test, log)
			}
			file := filepath.Join(home, c.file)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			broken := strings.Replace(string(text), c.at, c.broken, 1)
			if broken == string(text) {
				t.Fatalf("%s has no %q", c.file, c.at)
			}
			if err := os.WriteFile(file, []byte(broken), 0o755); err != nil {
				t.Fatal(err)
			}
			if passed, log := run(); passed {
				t.Errorf("%s passes with %s broken:\n%s", c.test, c.file, log)
			}
		})
	}
}
