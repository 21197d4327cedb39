// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/core/bound"
	"weir/internal/test/goldentest"
)

// Where docs/security.md has the table of inputs.
const (
	securityPage = "../docs/security.md"
	beginInputs  = "<!-- made by go test ./internal -update -->\n"
	endInputs    = "<!-- end -->\n"
)

// inside are the fuzz targets of texts that no one but root writes, or that the caller of a
// command writes for himself, with what they read.
var inside = map[string]string{
	"host/agent FuzzState":            "state.json",
	"api FuzzReadEvents":              "the agent's answers to its own command line",
	"face/cli/hostcmd FuzzSplitEnd":   "an argument of a command",
	"cluster/sim FuzzParse":           "a file that a user simulates",
	"cluster/sim FuzzRecorded":        "a recording that a user simulates",
	"config FuzzParse":                "weir.yaml",
	"config FuzzParseSwitch":          "a file for weir sdn apply",
	"host/dataplane/device FuzzParse": "what the kernel says of a qdisc",
	"host/dataplane/tc FuzzParse":     "what the kernel says of a class",
	"host/discover/notice FuzzNumber": "what the kernel says of a namespace",
	"lab/cluster FuzzParse":           "a file of the lab",
	"lab/scenario FuzzParse":          "a file of the lab",
	"lab/traffic FuzzParsePing":       "output of a program of the lab",
	"lab/traffic FuzzParseIperf":      "output of a program of the lab",
	"core/policy/classify FuzzDecode": "packets that tests and the lab read in place of the kernel",
}

// TestInputsAreFuzzed: each row of the table of inputs names functions and fuzz targets that
// exist, of which one at least asks a number of package bound, and each fuzz target is one of a row
// or reads nothing that others write.
func TestInputsAreFuzzed(t *testing.T) {
	targets := fuzzTargets(t)
	listed := maps.Clone(inside)
	for _, in := range bound.Inputs() {
		bounded := false
		if in.Bytes == 0 || len(in.Fuzz) == 0 || len(in.Held) == 0 || in.Writer == "" {
			t.Errorf("%s: a row has a size, a writer, a function and a fuzz target", in.Is)
		}
		for _, held := range in.Held {
			file, function, _ := strings.Cut(held, " ")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Errorf("%s: %v", in.Is, err)
			} else if !regexp.MustCompile(`(?m)^func (\(.*\) )?` + function + `[(\[]`).Match(text) {
				t.Errorf("%s: %s declares no %s", in.Is, file, function)
			} else {
				bounded = bounded || asksBound(t, file, function)
			}
		}
		if !bounded {
			t.Errorf("%s: none of the functions that hold it has a number of package bound", in.Is)
		}
		for _, target := range in.Fuzz {
			listed[target] = in.Is
			if body, there := targets[target]; there && !strings.Contains(body, "boundtest.Hold(") {
				t.Errorf("%s: %s does not hold what an input may cost", in.Is, target)
			}
		}
	}
	for _, target := range slices.Sorted(maps.Keys(listed)) {
		if _, there := targets[target]; !there {
			t.Errorf("there is no fuzz target %s for %s", target, listed[target])
		}
	}
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if listed[target] == "" {
			t.Errorf("fuzz target %s is in no row of bound.Inputs; enter it there, or in the list of those that read nothing of others", target)
		}
	}
}

// asksBound reports whether a function has a number of package bound in it, or a constant that its
// package makes of one.
func asksBound(t *testing.T, file, function string) bool {
	t.Helper()
	names := []string{`bound\.[A-Z]\w*`}
	body := ""
	list, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, made := range regexp.MustCompile(`(?m)^\s*(?:const )?(\w+)\s+= bound\.[A-Z]`).FindAllSubmatch(text, -1) {
			names = append(names, string(made[1]))
		}
		if filepath.Base(p) == filepath.Base(file) {
			at := regexp.MustCompile(`(?m)^func (\(.*\) )?` + function + `[(\[]`).FindIndex(text)
			body, _, _ = strings.Cut(string(text[at[0]:]), "\n}\n")
		}
	}
	return regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`).MatchString(body)
}

// fuzzTargets returns the text of each fuzz target, by "package Name".
func fuzzTargets(t *testing.T) map[string]string {
	t.Helper()
	targets := map[string]string{}
	begins := regexp.MustCompile(`(?m)^func (Fuzz[A-Z]\w*)\(`)
	err := filepath.WalkDir(".", func(p string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(p, "_test.go") {
			return err
		}
		text, err := os.ReadFile(p)
		for _, at := range begins.FindAllSubmatchIndex(text, -1) {
			body, _, _ := strings.Cut(string(text[at[0]:]), "\n}\n")
			targets[filepath.ToSlash(filepath.Dir(p))+" "+string(text[at[2]:at[3]])] = body
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return targets
}

// TestSecurityPageHasTheInputs: docs/security.md has the table of inputs.
func TestSecurityPageHasTheInputs(t *testing.T) {
	text, err := os.ReadFile(securityPage)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(text), beginInputs)
	_, foot, there := strings.Cut(rest, endInputs)
	if !there {
		t.Fatalf("%s has no place for the table of inputs, between %s and %s", securityPage, beginInputs, endInputs)
	}
	goldentest.Check(t, securityPage, head+beginInputs+inputsTable()+endInputs+foot)
}

func inputsTable() string {
	var b strings.Builder
	b.WriteString("| input | who may write it | bytes | levels | how many | held by | driven by |\n|---|---|---:|---:|---|---|---|\n")
	for _, in := range bound.Inputs() {
		levels := "-"
		if in.Levels > 0 {
			levels = fmt.Sprint(in.Levels)
		}
		var held, driven []string
		for _, h := range in.Held {
			file, function, _ := strings.Cut(h, " ")
			held = append(held, "`"+function+"` in internal/"+file)
		}
		for _, f := range in.Fuzz {
			folder, target, _ := strings.Cut(f, " ")
			driven = append(driven, "`"+folder+"` "+target)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", in.Is, in.Writer, bytesText(in.Bytes), levels, cmp.Or(in.Count, "-"), strings.Join(held, ", "), strings.Join(driven, ", "))
	}
	return b.String()
}

// bytesText returns a size in KiB or MiB.
func bytesText(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
