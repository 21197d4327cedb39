// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"weir/internal/base/strictyaml"
	"weir/internal/lab/scenario"
)

// scenarioFile is one that has expectations.
type scenarioFile struct {
	path    string // from the project's root
	name    string
	words   []string // of weir's command line
	machine bool     // it runs in the VM
	expect  []string // the entries as they are written
}

// scenarios are the files below lab/ that have expectations, in order.
func scenarios(root string) ([]scenarioFile, error) {
	var list []scenarioFile
	err := filepath.WalkDir(filepath.Join(root, labDir), func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".yaml" {
			return err
		}
		s, err := readScenario(root, file)
		if err != nil {
			return err
		}
		if len(s.expect) > 0 {
			list = append(list, s)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b scenarioFile) int { return strings.Compare(a.path, b.path) })
	return list, err
}

// readScenario reads what the kinds of scenario files have in common. Their own parsers,
// which their tests run over all files, check the rest.
func readScenario(root, file string) (s scenarioFile, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if s.path, err = filepath.Rel(root, file); err != nil {
		return s, err
	}
	s.path = filepath.ToSlash(s.path)
	keys := strictyaml.Top(text)
	if n := keys["name"]; n != nil {
		s.name = strings.Trim(n.String(), `"'`)
	}
	for _, e := range strictyaml.Entries(text, "expect") {
		s.expect = append(s.expect, e.Text)
	}
	switch {
	case keys["timeline"] != nil:
		s.words = []string{"lab", "cluster", s.path}
	case keys["clusters"] != nil:
		s.words = []string{"simulate", s.path}
	default:
		s.machine, s.words = true, []string{"lab", "run", s.path}
		if all := schedulers(keys, s.expect); all != nil {
			s.words = []string{"lab", "run", "--scheduler", strings.Join(all, ","), s.path}
		}
	}
	return s, nil
}

// command is the line for people that judges the file's expectations.
func (s scenarioFile) command() string {
	program := "bin/weir "
	if s.machine {
		program = "vm/run -- weir "
	}
	return program + strings.Join(s.words, " ")
}

var schedulerName = regexp.MustCompile(`\bscheduler: ([^,}\s]+)`)

// schedulers are those that a file has to be run with for all of its expectations, nil
// if its own are all. A cost or timing measurement always runs its own.
func schedulers(keys map[string]ast.Node, expect []string) []string {
	own := []string{scenario.DefaultScheduler}
	if n := keys["scheduler"]; n != nil {
		own[0] = n.String()
	}
	if list, ok := keys["beside"].(*ast.SequenceNode); ok {
		for _, n := range list.Values {
			own = append(own, n.String())
		}
	}
	all := slices.Clone(own)
	for _, entry := range expect {
		for _, found := range schedulerName.FindAllStringSubmatch(entry, -1) {
			if !slices.Contains(all, found[1]) {
				all = append(all, found[1])
			}
		}
	}
	if len(all) == len(own) || keys["cost"] != nil || keys["timing"] != nil {
		return nil
	}
	return all
}

// promise is something that a test holds.
type promise struct {
	What    string   `yaml:"what"`
	Bar     string   `yaml:"bar"`
	Package string   `yaml:"package"` // from the project's root
	Tests   []string `yaml:"tests"`
	Args    string   `yaml:"args"` // of the test, such as -long
	VM      string   `yaml:"vm"`   // the suite that runs it in a machine; "" = this machine does
}

// area is a group of promises.
type area struct {
	Area     string    `yaml:"area"`
	Promises []promise `yaml:"promises"`
}

// promises reads the list, and makes sure that the tests are there.
func promises(root string) ([]area, error) {
	file := filepath.Join(root, testFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []area
	if err := strictyaml.Read(testFile, text, &list); err != nil {
		return nil, err
	}
	for _, a := range list {
		for _, p := range a.Promises {
			if len(p.Tests) == 0 {
				return nil, fmt.Errorf("%s: %q has no test", testFile, p.What)
			}
			for _, name := range p.Tests {
				there, err := hasTest(filepath.Join(root, p.Package), name)
				if err != nil {
					return nil, err
				}
				if !there {
					return nil, fmt.Errorf("%s: %q: there is no %s in %s", testFile, p.What, name, p.Package)
				}
			}
		}
	}
	return list, nil
}

// hasTest says whether a package has a test of a name.
func hasTest(folder, name string) (bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return false, err
	}
	head := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name) + `\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return false, err
		}
		if head.Match(text) {
			return true, nil
		}
	}
	return false, nil
}

// command is how the promise's tests are run by themselves.
func (p promise) command() string {
	run := fmt.Sprintf("'^(%s)$'", strings.Join(p.Tests, "|"))
	if len(p.Tests) == 1 {
		run = "'^" + p.Tests[0] + "$'"
	}
	if p.VM != "" {
		name := path.Base(p.Package) + ".test"
		return strings.TrimSpace(fmt.Sprintf("go test -c -o %[1]s ./%[2]s && vm/run --copy %[1]s -- ./%[1]s -test.run %[3]s %[4]s", name, p.Package, run, p.Args))
	}
	return strings.TrimSpace(fmt.Sprintf("go test ./%s -run %s %s", p.Package, run, p.Args))
}
