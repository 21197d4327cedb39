// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is one line of go test -json, or of go tool test2json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a failed build
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// skip is a test that was not run, or with Test empty a whole package.
type skip struct {
	Package string `json:"package"`
	Test    string `json:"test"`
	Reason  string `json:"reason"`
}

func (s skip) String() string {
	return fmt.Sprintf("%s %s: %s", short(s.Package), cmp.Or(s.Test, "the whole package"), s.Reason)
}

// verdict is the result of one step by its events.
type verdict struct {
	passed   int
	skips    []skip
	problems []string // each a failure of the step
	remarks  []string // worth a look, but no failure
}

// suiteRun follows the events of one or more packages.
type suiteRun struct {
	packages map[string]*packageRun
	build    strings.Builder // what the compiler said
}

type packageRun struct {
	name   string
	result string // pass, fail, skip, or "" while it has none
	output strings.Builder
	tests  map[string]*testRun
}

type testRun struct {
	result string
	output strings.Builder
}

// follow reads events until their end and copies the tests' output to log. A line that is
// no event is printed as it is.
func follow(events io.Reader, log io.Writer) (*suiteRun, error) {
	s := &suiteRun{packages: map[string]*packageRun{}}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if len(line) > 0 {
			if json.Unmarshal(line, &e) != nil {
				e = event{Action: "output", Output: string(line)}
			}
			if _, err := io.WriteString(log, e.Output); err != nil {
				return nil, err
			}
			s.take(e)
		}
		if err == io.EOF {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *suiteRun) take(e event) {
	if e.Package == "" {
		s.build.WriteString(e.Output)
		return
	}
	p := s.packages[e.Package]
	if p == nil {
		p = &packageRun{name: e.Package, tests: map[string]*testRun{}}
		s.packages[e.Package] = p
	}
	if e.Test == "" {
		p.output.WriteString(e.Output)
		if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
			p.result = e.Action
		}
		return
	}
	t := p.tests[e.Test]
	if t == nil {
		t = &testRun{}
		p.tests[e.Test] = t
	}
	t.output.WriteString(e.Output)
	if e.Action == "pass" || e.Action == "fail" || e.Action == "skip" {
		t.result = e.Action
	}
}

// judge returns the verdict of the events in a place, by the list of skips.
func (s *suiteRun) judge(place string, list skipList) verdict {
	var v verdict
	if len(s.packages) == 0 {
		v.problems = append(v.problems, "no test ran\n"+s.build.String())
	}
	for _, name := range slices.Sorted(maps.Keys(s.packages)) {
		s.packages[name].judge(&v, s.build.String())
	}
	for _, skipped := range v.skips {
		if list.allows(place, skipped) == nil {
			v.problems = append(v.problems, fmt.Sprintf("SKIPPED, and no line of %s for %s allows it: %s", skipsFile, place, skipped))
		}
	}
	v.remarks = s.outdated(place, list, v.skips)
	return v
}

func (p *packageRun) judge(v *verdict, build string) {
	noFiles := p.result == "skip" && len(p.tests) == 0
	if noFiles {
		return
	}
	failed := len(v.problems)
	for _, name := range slices.Sorted(maps.Keys(p.tests)) {
		t := p.tests[name]
		switch t.result {
		case "pass":
			v.passed++
		case "skip":
			v.skips = append(v.skips, skip{p.name, name, reason(t.output.String())})
		case "fail":
			v.problems = append(v.problems, fmt.Sprintf("FAILED: %s %s\n%s", short(p.name), name, t.output.String()))
		default:
			v.problems = append(v.problems, fmt.Sprintf("FAILED: %s %s did not end\n%s", short(p.name), name, t.output.String()))
		}
	}
	said := p.output.String()
	switch {
	case cached.MatchString(said):
		v.problems = append(v.problems, fmt.Sprintf("DID NOT RUN: %s: go repeated an earlier result; go test -count=1 does not\n%s", short(p.name), said))
	case p.result == "pass" && len(p.tests) == 0:
		v.skips = append(v.skips, skip{Package: p.name, Reason: cmp.Or(reason(said), "no test ran")})
	case p.result != "pass" && len(v.problems) == failed:
		v.problems = append(v.problems, fmt.Sprintf("FAILED: %s\n%s%s", short(p.name), said, build))
	}
}

// cached matches what go test prints of a package that it did not run.
var cached = regexp.MustCompile(`(?m)^ok\s.*\(cached\)`)

// at matches the place in the code that begins a line of a test's log.
var at = regexp.MustCompile(`^\s*[\w./-]+\.go:\d+: `)

// reason returns the reason for which a test was skipped: the last text that it logged. A
// whole package gives its reason in a line that begins with SKIP.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "=== ") || strings.HasPrefix(text, "--- "):
		case at.MatchString(line):
			said = []string{at.ReplaceAllString(strings.TrimRight(line, "\n"), "")}
		case strings.HasPrefix(text, "SKIP: "):
			said = []string{text}
		case len(said) > 0 && text != "" && text != "PASS" && !strings.HasPrefix(text, "ok "):
			said = append(said, text)
		}
	}
	return strings.Join(said, " ")
}

// outdated returns the lines of the list that allow what no longer happens: tests that
// they name ran, and none of them was skipped.
func (s *suiteRun) outdated(place string, list skipList, skips []skip) (remarks []string) {
	used := map[*allowed]bool{}
	for _, skipped := range skips {
		used[list.allows(place, skipped)] = true
	}
	for _, a := range list {
		for name, p := range s.packages {
			if used[a] || !a.inPlace(place, name) {
				continue
			}
			for test, t := range p.tests {
				if t.result == "pass" && a.test.MatchString(test) {
					remarks = append(remarks, fmt.Sprintf("%s:%d: %s %s is no longer skipped in %s", skipsFile, a.line, a.pkg, a.test, place))
					break
				}
			}
		}
	}
	return remarks
}
