// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"
)

// events returns the events of a package with one test that passed, one that was skipped,
// and the added ones.
func events(more string) string {
	return `{"Action":"start","Package":"weir/internal/host/agent"}
{"Action":"run","Package":"weir/internal/host/agent","Test":"TestA"}
{"Action":"output","Package":"weir/internal/host/agent","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"weir/internal/host/agent","Test":"TestA"}
{"Action":"output","Package":"weir/internal/host/agent","Test":"TestB/x","Output":"=== RUN   TestB/x\n"}
{"Action":"output","Package":"weir/internal/host/agent","Test":"TestB/x","Output":"    a_test.go:7: first\n"}
{"Action":"output","Package":"weir/internal/host/agent","Test":"TestB/x","Output":"    a_test.go:8: needs a kernel\n"}
{"Action":"output","Package":"weir/internal/host/agent","Test":"TestB/x","Output":"        of its own\n"}
{"Action":"output","Package":"weir/internal/host/agent","Test":"TestB/x","Output":"--- SKIP: TestB/x (0.00s)\n"}
{"Action":"skip","Package":"weir/internal/host/agent","Test":"TestB/x"}
` + more
}

const passes = `{"Action":"output","Package":"weir/internal/host/agent","Output":"ok  \tweir/internal/host/agent\t1s\n"}
{"Action":"pass","Package":"weir/internal/host/agent"}
`

func TestJudge(t *testing.T) {
	const allowed = "native host/agent ^TestB/ needs a kernel of its own\n"
	for _, tt := range []struct {
		name, events, skips string
		problem             string // "" = none
		remark              string
	}{
		{"a skip that is allowed", events(passes), allowed, "", ""},
		{"a skip that is not", events(passes), "", "SKIPPED, and no line of scripts/skips for native allows it: host/agent TestB/x: needs a kernel of its own", ""},
		{"allowed for another reason", events(passes), "native host/agent ^TestB/ needs root\n", "TestB/x: needs a kernel", ""},
		{"allowed elsewhere", events(passes), "7.3,6.18 host/agent ^TestB/ needs a kernel\n", "TestB/x: needs a kernel", ""},
		{"allowed for another package", events(passes), "native api . needs a kernel\n", "TestB/x: needs a kernel", ""},
		{"a line too many", events(passes), allowed + "native host/agent ^TestA$ needs a kernel\n", "", "scripts/skips:2: host/agent ^TestA$ is no longer skipped in native"},
		{"a failure", events(`{"Action":"output","Package":"weir/internal/host/agent","Test":"TestC","Output":"    c_test.go:1: wrong\n"}
{"Action":"fail","Package":"weir/internal/host/agent","Test":"TestC"}
{"Action":"fail","Package":"weir/internal/host/agent"}
`), allowed, "FAILED: host/agent TestC\n    c_test.go:1: wrong", ""},
		{"a test that did not end", events(`{"Action":"output","Package":"weir/internal/host/agent","Test":"TestC","Output":"panic: no\n"}
{"Action":"fail","Package":"weir/internal/host/agent"}
`), allowed, "FAILED: host/agent TestC did not end\npanic: no", ""},
		{"a failure beside the tests", events(`{"Action":"output","Package":"weir/internal/host/agent","Output":"a goroutine is left\n"}
{"Action":"fail","Package":"weir/internal/host/agent"}
`), allowed, "FAILED: host/agent\na goroutine is left", ""},
		{"a machine that ended before its tests", events(""), allowed, "FAILED: host/agent", ""},
		{"what does not compile", `{"ImportPath":"weir/internal/host/agent","Action":"build-output","Output":"a.go:1: undefined: x\n"}
{"Action":"start","Package":"weir/internal/host/agent"}
{"Action":"fail","Package":"weir/internal/host/agent"}
`, "", "a.go:1: undefined: x", ""},
		{"a package without tests", events(passes + `{"Action":"output","Package":"weir/cmd","Output":"?   weir/cmd [no test files]\n"}
{"Action":"skip","Package":"weir/cmd"}
`), allowed, "", ""},
		{"a package that skips all", `{"Action":"output","Package":"weir/internal/test/e2e","Output":"SKIP: needs root\n"}
{"Action":"pass","Package":"weir/internal/test/e2e"}
`, "", "test/e2e the whole package: SKIP: needs root", ""},
		{"a pattern that no test matches", `{"Action":"output","Package":"weir/internal/test/e2e","Output":"testing: warning: no tests to run\n"}
{"Action":"pass","Package":"weir/internal/test/e2e"}
`, "", "test/e2e the whole package: no test ran", ""},
		{"nothing", "the machine did not start\n", "", "no test ran\nthe machine did not start", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, err := readSkips(strings.NewReader(tt.skips))
			if err != nil {
				t.Fatal(err)
			}
			tests, err := follow(strings.NewReader(tt.events), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			v := tests.judge("native", list)
			problems, remarks := strings.Join(v.problems, "|"), strings.Join(v.remarks, "|")
			if !strings.Contains(problems, tt.problem) || (problems == "") != (tt.problem == "") {
				t.Errorf("problems %q, want %q", problems, tt.problem)
			}
			if remarks != tt.remark {
				t.Errorf("remarks %q, want %q", remarks, tt.remark)
			}
		})
	}
}

func TestSkipsAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"# nothing\n\nnative a . b": "",
		"native a .":                "line 1: \"native a .\": not PLACES PACKAGE TEST REASON",
		"\nhere a . b":              "line 2: place \"here\": there are native, long, 7.3, 6.18",
		"native a ( b":              "line 1: error parsing regexp",
	} {
		_, err := readSkips(strings.NewReader(text))
		if got := errorText(err); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if _, err := openSkips("../../../" + skipsFile); err != nil {
		t.Errorf("the project's own list: %v", err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
