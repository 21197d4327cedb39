// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

func TestLicencesOfAModule(t *testing.T) {
	known := table{"a.org/x": {"MIT"}, "a.org/x/sub": {"BSD-3-Clause"}, "a.org/xy": {"ISC"}, "b.org/y/pkg": {"MIT"}}
	for module, want := range map[string]string{
		"a.org/x":     "BSD-3-Clause AND MIT",
		"a.org/xy":    "ISC",
		"b.org/y":     "MIT",
		"a.org/x/sub": "BSD-3-Clause",
		"a.org/x/new": "MIT", // a module below one that is known by its folder
		"c.org/z":     "",
	} {
		if got := known.of(module); got != want {
			t.Errorf("%s: %q, want %q", module, got, want)
		}
	}
	if got := identifier("github.com/a_b/c~d v2"); got != "github.com-a-b-c-d-v2" {
		t.Errorf("identifier %q", got)
	}
}
