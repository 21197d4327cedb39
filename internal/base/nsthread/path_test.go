// SPDX-License-Identifier: Apache-2.0

package nsthread_test

import (
	"os"
	"path/filepath"
	"testing"

	"weir/internal/base/nsthread"
)

func TestPathOf(t *testing.T) {
	for _, c := range []struct{ name, there, want string }{
		{"usual", "ns/net", "ns/net"},
		{"the first thread has ended", "task/815/ns/net", "task/815/ns/net"},
		{"ended", "", "ns/net"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			for _, thread := range []string{".", "task/812", "task/815"} {
				path := filepath.Join(folder, thread, "ns/net")
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if rel, _ := filepath.Rel(folder, path); rel != c.there {
					continue
				}
				if err := os.Symlink("net:[1]", path); err != nil {
					t.Fatal(err)
				}
			}
			if got := nsthread.PathOf(folder); got != filepath.Join(folder, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}
