// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/face/cli/frame"
	"weir/internal/host/discover"
	"weir/internal/test/goldentest"
)

// The tests of this file give wrong inputs to every part of the interface: command lines,
// keys of weir.yaml, labels, fields of the API. testdata/wrong/*.txt have the inputs;
// beside each stands its answer as a golden file. Each answer has to be one line that
// names the mistake and its remedy, and no input may change anything.

// inputs returns the lines of a file of testdata/wrong, without empty ones and comments.
func inputs(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "wrong", file))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return l == "" || strings.HasPrefix(l, "#") })
}

// remedies are the forms in which a message says what to do.
var remedies = regexp.MustCompile(`; .|: (write|give) |did you mean |, write |know|start one with| where fields are expected$`)

// judge holds a message to the rules that hold for all of them.
func judge(t *testing.T, input, message string) {
	t.Helper()
	switch {
	case strings.Count(message, "\n") != 0 || message == "":
		t.Errorf("%s: %q is not one line", input, message)
	case !remedies.MatchString(message):
		t.Errorf("%s: %q does not say what to do", input, message)
	case strings.Contains(message, "/v1/") || strings.Contains(message, "json:") || strings.Contains(message, "strconv") || strings.Contains(message, "uint"):
		t.Errorf("%s: %q speaks of the inside", input, message)
	}
}

// words takes a command line apart as a shell does, with single quotes alone.
func words(line string) []string {
	var list []string
	inside, open := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			if inside = !inside; inside && !open {
				list, open = append(list, ""), true
			}
		case r == ' ' && !inside:
			open = false
		default:
			if !open {
				list, open = append(list, ""), true
			}
			list[len(list)-1] += string(r)
		}
	}
	return list
}

func TestWrongCommandLines(t *testing.T) {
	t.Setenv("WEIR_MANAGER_SOCKET", "/run/weir-no-manager.sock")
	h := newWrongHost(t)
	before := h.state(t)
	var got strings.Builder
	for _, line := range inputs(t, "commands.txt") {
		code, errs := h.weir(words(line)...)
		message := strings.ReplaceAll(strings.TrimSuffix(errs, "\n"), h.dir, "$DIR")
		fmt.Fprintf(&got, "weir %s\n  %d %s\n", line, code, message)
		judge(t, line, message)
		if !slices.Contains([]int{frame.ExitUsage, frame.ExitNoAgent, frame.ExitRefused, frame.ExitUnknown}, code) {
			t.Errorf("%s: exit code %d is of no wrong input", line, code)
		}
		if named := words(line); !strings.HasPrefix(message, "weir: ") || !slices.ContainsFunc(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(` :"=.,;-`, r) }),
			func(w string) bool {
				return strings.Contains(line, strings.TrimLeft(w, "-")) || w == strings.ToUpper(w) && len(w) > 1
			}) {
			t.Errorf("%v: %q names nothing of it", named, message)
		}
		if h.state(t) != before {
			t.Fatalf("%s: the agent's state has changed", line)
		}
	}
	goldentest.Check(t, "testdata/wrong/commands.golden", got.String())
}

func TestWrongRequests(t *testing.T) {
	h := newWrongHost(t)
	before := h.state(t)
	var got strings.Builder
	for _, line := range inputs(t, "requests.txt") {
		method, rest, _ := strings.Cut(line, " ")
		path, body, _ := strings.Cut(rest, " ")
		status, err := h.request(t, method, path, body)
		message := strings.Join((&frame.App{}).ErrorLines(err), "\n")
		fmt.Fprintf(&got, "%s\n  %d %s\n", line, status, message)
		if status < 400 || status >= 500 || err.Field == "" || err.Remedy == "" || strings.Contains(message, "\n") {
			t.Errorf("%s: status %d, %+v; it has to name the field and the remedy", line, status, err)
		}
		if h.state(t) != before {
			t.Fatalf("%s: the agent's state has changed", line)
		}
	}
	goldentest.Check(t, "testdata/wrong/requests.golden", got.String())
}

func TestWrongConfigurations(t *testing.T) {
	h := newWrongHost(t)
	file := filepath.Join(h.dir, "weir.yaml")
	var got strings.Builder
	for _, line := range inputs(t, "config.txt") {
		text := strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(line)
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		code, errs := h.weir("config", "check", file)
		message := strings.ReplaceAll(strings.TrimSuffix(errs, "\n"), file, "weir.yaml")
		fmt.Fprintf(&got, "%s\n  %d %s\n", line, code, message)
		judge(t, line, message)
		if code != frame.ExitUsage || !regexp.MustCompile(`^weir: weir\.yaml:\d+:\d+: `).MatchString(message) {
			t.Errorf("%s: exit code %d, %q; it has to be 2 and name the place", line, code, message)
		}
	}
	goldentest.Check(t, "testdata/wrong/config.golden", got.String())
}

func TestWrongLabels(t *testing.T) {
	var containers []discover.Workload
	lines := inputs(t, "labels.txt")
	for i, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		w := containerOf(fmt.Sprintf("c%03d", i), map[string]string{key: value})
		w.Devices[0].Ifindex = 5000 + i
		containers = append(containers, w)
	}
	h := newWrongHost(t, containers...)
	var got strings.Builder
	for i, line := range lines {
		w, err := h.client.Workload(t.Context(), fmt.Sprintf("c%03d", i))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s\n  %s %s\n", line, w.State, w.Note)
		key, _, _ := strings.Cut(line, "=")
		judge(t, line, w.Note)
		if !strings.Contains(w.Note, strings.TrimPrefix(key, "weir.")) {
			t.Errorf("%s: %q does not name the label", line, w.Note)
		}
		if w.Policy.Weight != 1 || !w.Policy.Min.None() || !w.Policy.Max.None() || !w.Policy.Reserve.None() || w.Policy.Group != "" || w.Policy.DSCP != nil || len(w.Policy.Queues) != 0 {
			t.Errorf("%s: the policy is %+v, as if the label were right", line, w.Policy)
		}
	}
	goldentest.Check(t, "testdata/wrong/labels.golden", got.String())
}

// request asks the agent's API for a change and returns how it is refused.
func (h *wrongHost) request(t *testing.T, method, path, body string) (int, *refusal.Error) {
	t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, req)
	var p api.ProblemDetails
	if w.Code == http.StatusOK || json.Unmarshal(w.Body.Bytes(), &p) != nil {
		return w.Code, &refusal.Error{Msg: w.Body.String()}
	}
	return w.Code, p.AsError(w.Code)
}
