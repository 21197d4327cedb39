// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew instead of comparing with them")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it with: go test ./internal/policy -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at the change, then: go test ./internal/policy -update\n--- got\n%s--- want\n%s", path, got, want)
	}
}
