// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	_ "embed"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"weir/internal/test/doccommand"
)

// rules says, for each page of the documentation, on what host its commands run, which of
// them do not run as they are printed, and why.
//
//go:embed testdata/documented.yaml
var rules []byte

// page is the host that a page's commands expect, and its exceptions.
type page struct {
	Elsewhere string            `yaml:"elsewhere"` // none of its commands runs here: why
	Workloads []string          `yaml:"workloads"` // network namespaces
	Sending   []string          `yaml:"sending"`   // those of them that send all they can while an agent runs
	Taps      []string          `yaml:"taps"`
	Address   string            `yaml:"address"` // of the host, beside the link's
	Switch    bool              `yaml:"switch"`  // an Open vSwitch with the bridge s1 runs on it
	Files     map[string]string `yaml:"files"`   // in the working directory
	Config    string            `yaml:"config"`  // weir.yaml; "" = the page starts the agent itself
	Here      []difference      `yaml:"here"`
	Commands  map[string]rule   `yaml:"commands"` // by the first words of a command
	Others    map[string]string `yaml:"others"`   // what a block without a command is, and what holds it, by its first words
}

// difference is text that a page shows and that this host prints in another way.
type difference struct {
	Shown  string `yaml:"shown"`
	Is     string `yaml:"is"`
	On     string `yaml:"on"` // with this backend only, bpf or tc
	Reason string `yaml:"because"`
}

// rule is how a command runs that does not run as it is printed, to its end, with
// exit code 0.
type rule struct {
	Code       int           `yaml:"code"`
	Fallback   *fallback     `yaml:"fallback"`
	Stopped    string        `yaml:"stopped"`    // agent or manager: it is stopped first
	Before     string        `yaml:"before"`     // a command that comes first
	Instead    string        `yaml:"instead"`    // a command that stands for it; what the page shows is not compared
	Reason     string        `yaml:"because"`    // of Instead
	Background bool          `yaml:"background"` // it is an agent or a manager, which takes the place of the one before
	For        time.Duration `yaml:"for"`        // then it is interrupted
	Within     time.Duration `yaml:"within"`     // what it shows is there after so long at most
	After      string        `yaml:"after"`      // a command that has to end with exit code 0 then, within the same time
	Source     string        `yaml:"source"`     // it needs the source and its tools, so that it does not run in a virtual machine: why that is enough
	Elsewhere  string        `yaml:"elsewhere"`  // it does not run here: what runs it, or why nothing does
}

// fallback is what the tc backend does instead of what the page shows.
type fallback struct {
	Code   int      `yaml:"code"`
	Prints []string `yaml:"prints"` // none = nothing is compared
	Reason string   `yaml:"because"`
}

func readRules(t *testing.T) (pages map[string]page) {
	t.Helper()
	if err := yaml.UnmarshalWithOptions(rules, &pages, yaml.DisallowUnknownField()); err != nil {
		t.Fatal(err)
	}
	return pages
}

// documentation returns the folder that has README.md and docs, and whether it is the
// repository. In a virtual machine it is the working directory.
func documentation(t *testing.T) (folder string, source bool) {
	t.Helper()
	for _, dir := range []string{"../../..", "."} {
		if _, err := os.Stat(filepath.Join(dir, "README.md")); err == nil {
			return dir, dir != "."
		}
	}
	t.Fatal("README.md and docs are not here; in a virtual machine: vm/run --copy README.md --copy docs")
	return "", false
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	dir, _ := documentation(t)
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ruleOf returns the rule with the longest name that a command begins with.
func (p page) ruleOf(command string) (name string, r rule) {
	name = longest(maps.Keys(p.Commands), command)
	return name, p.Commands[name]
}

// longest returns the longest name that text begins with, "" if there is none.
func longest(names iter.Seq[string], text string) (found string) {
	for n := range names {
		if strings.HasPrefix(text, n) && len(n) > len(found) {
			found = n
		}
	}
	return found
}

// pageNames returns all pages of the documentation. A virtual machine has fewer.
func pageNames(t *testing.T) (names []string, all bool) {
	t.Helper()
	dir, source := documentation(t)
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*.md", "vm/*.md", "lab/*.md", "lab/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, strings.TrimPrefix(filepath.Clean(f), filepath.Clean(dir)+"/"))
		}
	}
	if len(names) < 20 {
		t.Fatalf("only these pages were found: %v", names)
	}
	return names, source
}

// Every page that shows commands or other blocks has rules, and every rule is about
// something that is there.
func TestEveryDocumentedCommandHasItsRule(t *testing.T) {
	pages := readRules(t)
	names, all := pageNames(t)
	commands := 0
	for _, name := range names {
		text := readPage(t, name)
		p, ok := pages[name]
		if p.Elsewhere != "" {
			continue
		}
		list, others := doccommand.Parse(text), doccommand.Others(text)
		if !ok && len(list)+len(others) > 0 {
			t.Errorf("%s shows commands or other blocks, and testdata/documented.yaml has no rules for the page", name)
		}
		commands += len(list)
		used := map[string]bool{}
		for _, c := range list {
			n, r := p.ruleOf(c.Text)
			used[n] = true
			if f := r.Fallback; f != nil && (f.Reason == "" || c.Output != nil && f.Prints == nil && r.Instead == "") {
				t.Errorf("testdata/documented.yaml: %s: %q does not say what the fallback prints, or why", name, n)
			}
		}
		for _, o := range others {
			n := longest(maps.Keys(p.Others), strings.TrimSpace(o.Text))
			used[n] = true
			if p.Others[n] == "" {
				t.Errorf("%s:%d: %q is no command, and testdata/documented.yaml does not say what it is: others", name, o.Number, o.Text)
			}
		}
		for _, n := range slices.Concat(slices.Sorted(maps.Keys(p.Commands)), slices.Sorted(maps.Keys(p.Others))) {
			if !used[n] {
				t.Errorf("testdata/documented.yaml: %s shows no %q", name, n)
			}
		}
	}
	for name := range pages {
		if all && !slices.Contains(names, name) {
			t.Errorf("testdata/documented.yaml: there is no page %s", name)
		}
	}
	if commands < 100 {
		t.Errorf("only %d commands were found", commands)
	}
}

// named is what a reason can name: a test, a folder or file, a verb of the Makefile.
var named = regexp.MustCompile(`\b(Test[A-Z]\w*|make [a-z-]+|(internal|scripts|lab)/[\w/.-]*\w)`)

// What does not run as it is printed has a reason, and the tests, scripts, files and verbs
// that reasons name are there.
func TestDocumentedReasons(t *testing.T) {
	dir, source := documentation(t)
	if !source {
		t.Skip("SKIP: the source is not here")
	}
	exists := sourceNames(t, dir)
	for name, p := range readRules(t) {
		reasons := map[string]string{}
		for n, r := range p.Commands {
			if r.Instead != "" || r.Elsewhere != "" || r.Source != "" {
				reasons[n] = cmp.Or(r.Reason, r.Elsewhere, r.Source)
			}
			if r.Fallback != nil {
				reasons[n+" (fallback)"] = r.Fallback.Reason
			}
		}
		for _, d := range p.Here {
			reasons[d.Shown] = d.Reason
		}
		if p.Elsewhere != "" {
			reasons["all"] = p.Elsewhere
		}
		maps.Copy(reasons, p.Others)
		for n, reason := range reasons {
			if reason == "" {
				t.Errorf("testdata/documented.yaml: %s: %q has no reason", name, n)
			}
			for _, what := range named.FindAllString(reason, -1) {
				if !exists(what) {
					t.Errorf("testdata/documented.yaml: %s: %q: there is no %s", name, n, what)
				}
			}
		}
	}
}

// sourceNames returns what says whether the repository has a test, a file or folder, or a
// verb of the Makefile.
func sourceNames(t *testing.T, dir string) func(string) bool {
	t.Helper()
	makefile := readPage(t, "Makefile")
	tests := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(filepath.Join(dir, "internal"), func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range function.FindAllSubmatch(text, -1) {
			tests[string(found[1])] = true
		}
		return err
	})
	if err != nil || len(tests) < 100 {
		t.Fatalf("%d tests were found: %v", len(tests), err)
	}
	return func(what string) bool {
		if verb, ok := strings.CutPrefix(what, "make "); ok {
			return strings.Contains(makefile, "\n"+verb+":")
		}
		if tests[what] {
			return true
		}
		_, err := os.Stat(filepath.Join(dir, what))
		return err == nil
	}
}

// The commands of a page do what it says, in its order, and print what it shows, but
// for numbers.
func TestDocumentedCommands(t *testing.T) {
	pages := readRules(t)
	names, _ := pageNames(t)
	for _, name := range names {
		p, ok := pages[name]
		if !ok || p.Elsewhere != "" {
			continue // TestEveryDocumentedCommandHasItsRule reports it
		}
		list := slices.DeleteFunc(doccommand.Parse(readPage(t, name)), func(c doccommand.Command) bool {
			_, r := p.ruleOf(c.Text)
			return r.Elsewhere != ""
		})
		if len(list) == 0 {
			continue
		}
		t.Run(strings.TrimSuffix(strings.TrimPrefix(name, "docs/"), ".md"), func(t *testing.T) {
			newDocumented(t, p).follow(name, list)
		})
	}
}
