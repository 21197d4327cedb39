// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// places are where tests run: on this machine, there at their full size (-long), and in
// a virtual machine with either kernel.
var places = []string{"native", "long", "7.3", "6.18"}

// allowed is one line of the list of skips: in these places, tests of this package whose
// name matches may be skipped for a reason that contains this text.
type allowed struct {
	line   int
	places []string
	pkg    string // below weir/internal, or from the module's root
	test   *regexp.Regexp
	reason string
}

// skipList is the file scripts/skips.
type skipList []*allowed

// readSkips reads lines of four fields: places with commas between them, package, a regular
// expression for tests, and text of the reason, which goes to the line's end. Empty lines
// and those that begin with # say nothing. The error names the line.
func readSkips(r io.Reader) (skipList, error) {
	var list skipList
	lines := bufio.NewScanner(r)
	for nr := 1; lines.Scan(); nr++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		a, err := parseSkip(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", nr, err)
		}
		a.line = nr
		list = append(list, a)
	}
	return list, lines.Err()
}

func parseSkip(text string) (*allowed, error) {
	var fields [3]string
	rest := text
	for i := range fields {
		fields[i], rest, _ = strings.Cut(rest, " ")
		rest = strings.TrimSpace(rest)
	}
	if rest == "" {
		return nil, fmt.Errorf("%q: not PLACES PACKAGE TEST REASON", text)
	}
	test, err := regexp.Compile(fields[2])
	if err != nil {
		return nil, err
	}
	a := &allowed{places: strings.Split(fields[0], ","), pkg: fields[1], test: test, reason: rest}
	for _, place := range a.places {
		if !slices.Contains(places, place) {
			return nil, fmt.Errorf("place %q: there are %s", place, strings.Join(places, ", "))
		}
	}
	return a, nil
}

// inPlace says whether the line is about a package in a place.
func (a *allowed) inPlace(place, pkg string) bool {
	return slices.Contains(a.places, place) && short(pkg) == a.pkg
}

// allows returns the line by which a test may be skipped for a reason, or nil.
func (l skipList) allows(place string, s skip) *allowed {
	for _, a := range l {
		if a.inPlace(place, s.Package) && a.test.MatchString(s.Test) && strings.Contains(s.Reason, a.reason) {
			return a
		}
	}
	return nil
}

// short returns a package's path without what all have in common.
func short(pkg string) string {
	return strings.TrimPrefix(strings.TrimPrefix(pkg, "weir/"), "internal/")
}
