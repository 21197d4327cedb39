// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestDigest: a result stands until a file changes that its step runs, and no longer.
func TestDigest(t *testing.T) {
	files := func(names ...string) map[string]string {
		all := map[string]string{}
		for _, name := range names {
			all[name] = "100644 one"
		}
		return all
	}
	now := tree{
		files: files("go.mod", "README", "bpf/core/a.h", "vm/run", "lab/qcon/fig07.yaml", "lab/qcon/fig11.yaml",
			"internal/core/policy/rate.go", "internal/core/policy/rate_test.go", "internal/core/policy/testdata/fuzz/FuzzRate/1",
			"internal/core/refusal/refusal.go", "internal/core/refusal/refusal_test.go", "internal/testhelp/help.go",
			"internal/mark/gen.go", "internal/mark/mark.go", "internal/face/cli/cli.go"),
		packages: map[string]goPackage{
			"weir/internal/core/policy":  {Imports: []string{"fmt", "weir/internal/core/refusal"}, TestImports: []string{"weir/internal/testhelp"}},
			"weir/internal/core/refusal": {TestImports: []string{"weir/internal/face/cli"}},
			"weir/internal/testhelp":     {},
			"weir/internal/mark":         {Imports: []string{"weir/internal/core/policy"}},
			"weir/internal/face/cli":     {},
		},
	}
	for _, c := range []struct {
		name  string
		in    inputs
		stays string // files that may change
	}{
		{"everything", inputs{}, ""},
		{"a package's tests", inputs{tests: []string{"core/policy"}},
			"README bpf/core/a.h vm/run lab/qcon/fig07.yaml lab/qcon/fig11.yaml internal/core/refusal/refusal_test.go internal/mark/gen.go internal/mark/mark.go internal/face/cli/cli.go"},
		{"tests of a program for the kernel, in a machine", inputs{tests: []string{"mark"}, files: []string{"vm"}},
			"README lab/qcon/fig07.yaml lab/qcon/fig11.yaml internal/core/policy/rate_test.go internal/core/policy/testdata/fuzz/FuzzRate/1 internal/core/refusal/refusal_test.go internal/testhelp/help.go internal/face/cli/cli.go"},
		{"a scenario", inputs{files: []string{"lab/qcon/fig07.yaml", "vm"}},
			"README go.mod bpf/core/a.h lab/qcon/fig11.yaml internal/core/policy/rate.go internal/core/policy/rate_test.go internal/core/policy/testdata/fuzz/FuzzRate/1 internal/core/refusal/refusal.go internal/core/refusal/refusal_test.go internal/testhelp/help.go internal/mark/gen.go internal/mark/mark.go internal/face/cli/cli.go"},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := now.digest(c.in)
			for _, file := range slices.Sorted(maps.Keys(now.files)) {
				changed := now
				changed.files = maps.Clone(now.files)
				changed.files[file] = "100644 another"
				stays := slices.Contains(strings.Fields(c.stays), file)
				if same := changed.digest(c.in) == was; same != stays {
					t.Errorf("%s has changed: the result stands: %v, want %v", file, same, stays)
				}
			}
		})
	}
}

// TestInputsAreThere: each package and file that a step names as its input exists, so that a
// rename does not leave a step with none.
func TestInputsAreThere(t *testing.T) {
	steps := fullSteps(t, "qcon/fig07-fair lab/qcon/fig07.yaml --scheduler fair\n")
	now, err := readTree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	narrow := 0
	for _, s := range steps {
		for _, p := range s.Inputs.tests {
			if _, own := now.packages[module+"internal/"+p]; !own {
				t.Errorf("%s: there is no package internal/%s", s.Name, p)
			}
		}
		for _, f := range s.Inputs.files {
			if len(now.under(f)) == 0 {
				t.Errorf("%s: there is no %s", s.Name, f)
			}
		}
		if s.Inputs.tests != nil || s.Inputs.files != nil {
			narrow++
		}
	}
	if narrow < 100 {
		t.Errorf("%d steps know what they run, want at least 100: fuzz targets, scenarios, tests in machines", narrow)
	}
}
