// SPDX-License-Identifier: Apache-2.0

package bpf

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/base/strictyaml"
)

// sources is where the simulator's C is: another folder has a fault in it.
var sources = flag.String("bpf", "../../../../bpf", "the C that the simulator is compiled of")

// TestMutants puts each fault of testdata/mutants.yaml into a copy of the C, and has the tests that
// it names notice it. Without -long it does so with the first few, and looks whether the others can
// still be put there.
func TestMutants(t *testing.T) {
	const list = "testdata/mutants.yaml"
	text, err := os.ReadFile(list)
	must(t, err)
	var mutants []struct{ Promise, File, From, To, Tests string }
	must(t, strictyaml.Read(list, text, &mutants))
	for i, m := range mutants {
		t.Run(m.Promise, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "bpf")
			must(t, os.CopyFS(folder, os.DirFS(*sources)))
			path := filepath.Join(folder, m.File)
			before, err := os.ReadFile(path)
			must(t, err)
			if n := strings.Count(string(before), m.From); n != 1 {
				t.Fatalf("%s has the text of from %d times", m.File, n)
			}
			if i >= 4 && !*long {
				return
			}
			must(t, os.WriteFile(path, []byte(strings.Replace(string(before), m.From, m.To, 1)), 0o600))
			out, err := exec.Command(os.Args[0], "-test.run", m.Tests, "-bpf", folder).CombinedOutput()
			switch said := string(out); {
			case strings.Contains(said, "compile the simulator"):
				t.Errorf("it does not compile:\n%s", said)
			case err == nil:
				t.Errorf("%s does not notice", m.Tests)
			case !strings.Contains(said, "--- FAIL"):
				t.Errorf("no test ran, or it broke down:\n%s", said)
			}
		})
	}
}
