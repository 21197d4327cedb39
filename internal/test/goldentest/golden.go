// SPDX-License-Identifier: Apache-2.0

// Package goldentest compares what a test has made with a file that holds what it
// should be. With the flag -update, which every test that imports it has, the files
// are written anew; look at the difference before committing it:
//
//	go test ./internal/core/policy -update
package goldentest

import (
	"flag"
	"os"
	"testing"
)

// Update says that files are to be written instead of compared with.
var Update = flag.Bool("update", false, "write the golden files anew instead of comparing with them")

// Check compares got with the file at path.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if *Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; make it by running the test with -update", err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at the change, then run the test with -update\n--- got\n%s--- want\n%s", path, got, want)
	}
}
