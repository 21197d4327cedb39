// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os"
	"path/filepath"
	"testing"
)

func install(t *testing.T, folder string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(folder, Lab)
	if err := os.WriteFile(path, []byte("#!/bin/true\n"), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	beside, inPath, empty := t.TempDir(), t.TempDir(), t.TempDir()
	own, other := install(t, beside, 0o755), install(t, inPath, 0o755)
	noProgram := t.TempDir()
	install(t, noProgram, 0o644)
	for name, test := range map[string]struct{ folder, path, want string }{
		"beside the running program first": {beside, inPath, own},
		"else in PATH":                     {empty, empty + ":" + inPath, other},
		"a file that cannot be run":        {noProgram, inPath, other},
		"nowhere":                          {empty, noProgram, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", test.path)
			got, err := find(Lab, test.folder)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Fatalf("%q, %v; want %q", got, err, test.want)
			}
			if want := "weir-lab is not installed: it is neither in " + test.folder + " nor in PATH"; err != nil && err.Error() != want {
				t.Errorf("%q, want %q", err, want)
			}
		})
	}
}

// A program in the working directory is none that PATH has, unless PATH names the folder.
func TestFindNotInTheWorkingDirectory(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, 0o755)
	t.Chdir(folder)
	for _, path := range []string{".", ""} {
		t.Setenv("PATH", path)
		if got, err := find(Lab, t.TempDir()); err == nil {
			t.Errorf("PATH=%q: found %s", path, got)
		}
	}
}
