// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

const scenarioText = `# a comment
name: a name

link: {bandwidth: 100mbit}
expect:
  - {utilisation: 99%}
workloads: {}
`

func TestDigestIsOfWhatIsMeasured(t *testing.T) {
	same := Digest([]byte(scenarioText))
	for old, changed := range map[string]bool{"a comment": false, "a name": false, "99%": false, "100mbit": true, "workloads": true} {
		other := Digest([]byte(strings.Replace(scenarioText, old, "other", 1)))
		if (other != same) != changed {
			t.Errorf("%s: digest changes: %t, want %t", old, other != same, changed)
		}
	}
}

// oneRun is a file of the folder, of a commit.
func oneRun(commit string) string {
	return fmt.Sprintf(`{"run":{"scenario":"lab/qcon/a.yaml","digest":"%s","scheduler":"fair","commit":"%s","kernel":"7.3","date":"2026-11-23","machine":"m","command":"c","status":0}}
{"phase":1,"workload":"c1","rate_bps":1,"flows":[{"workload":"c1","flow":"tcp","rtt_ms":{"p99":0.5}}]}
{"phase":1,"link":"up0","utilisation":0.5}
{"case":"inside","scheduler":"fair","ns_per_packet":5,"base_ns":3}
{"case":"inside","scheduler":"htb","problem":"dropped a packet"}
{"scheduler":"fair","packets":7,"late_max_us":3}
{"scheduler":"fq","problem":"no such qdisc"}
`, Digest([]byte(scenarioText)), commit)
}

func TestRead(t *testing.T) {
	all, err := Load(fstest.MapFS{"qcon/a-fair.jsonl": &fstest.MapFile{Data: []byte(oneRun("abc"))}})
	if err != nil {
		t.Fatal(err)
	}
	r := all.Run("qcon/a-fair")
	if w, found := r.Workload(1, "c1"); !found || w.RateBps != 1 {
		t.Errorf("workload %v", w)
	}
	if f, found := r.Flow(1, "c1", "tcp"); !found || *f.RTT.P99 != 0.5 {
		t.Errorf("flow %v", f)
	}
	if l, found := r.Link(1); !found || l.Utilisation != 0.5 || r.Phases() != 1 {
		t.Errorf("link %v, %d phases", l, r.Phases())
	}
	if list := r.Costs(); len(list) != 1 || list[0].Added() != 2 {
		t.Errorf("costs %v", list)
	}
	if list := r.Timings(); len(list) != 1 || list[0].LateMax != 3 {
		t.Errorf("timings %v", list)
	}
	if text, err := r.Text(); err != nil || string(text) != oneRun("abc") {
		t.Errorf("written again it is %s (%v)", text, err)
	}
	if none := all.Run("qcon/b"); none != nil || none.Phases() != 0 || none.Costs() != nil {
		t.Error("a run that is not there has results")
	}
}

func TestLoadRefusesDataWithoutSource(t *testing.T) {
	for _, text := range []string{"", `{"phase":1}`, `{"run":{}}`, "no JSON"} {
		_, err := Load(fstest.MapFS{"qcon/a.jsonl": &fstest.MapFile{Data: []byte(text)}})
		if err == nil || !strings.HasPrefix(err.Error(), "docs/papers/data/qcon/a.jsonl: ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// repository is a clone with a scenario, one run of it, and a file of the data plane.
func repository(t *testing.T) (root string, run func(args ...string) string) {
	t.Helper()
	root = t.TempDir()
	run = func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", root, "-c", "user.name=x", "-c", "user.email=x@localhost"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	put(t, root, "lab/qcon/a.yaml", scenarioText)
	put(t, root, "bpf/a.h", strings.Repeat("a\n", 300))
	run("init", "-q")
	run("add", ".")
	run("commit", "-qm", "a")
	put(t, root, Folder+"/qcon/a-fair.jsonl", oneRun(run("rev-parse", "HEAD")))
	return root, run
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// loaded is the data at root.
func loaded(t *testing.T, root string) *Runs {
	t.Helper()
	all, err := Load(os.DirFS(filepath.Join(root, Folder)))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWrong(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		want             string // part of the only complaint; "" = none
	}{
		{"nothing has changed", "docs/a.md", "a", ""},
		{"few lines have", "bpf/a.h", strings.Repeat("a\n", 100), ""},
		{"too many have", "bpf/a.h", strings.Repeat("b\n", 300), "/stale.txt:1: the code has changed by more than the data may be old"},
		{"tests do not count", "bpf/a_test.go", strings.Repeat("b\n", 3000), ""},
		{"another scenario", "lab/qcon/a.yaml", "link: {bandwidth: 1mbit}\n", "/qcon/a-fair.jsonl:1: lab/qcon/a.yaml has changed since; measure again: scripts/papers qcon/a-fair"},
		{"an unknown commit", Folder + "/qcon/a-fair.jsonl", oneRun(strings.Repeat("0", 40)), "/qcon/a-fair.jsonl:1: its commit 000000000000 is not in this clone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, git := repository(t)
			put(t, root, c.file, c.text)
			git("add", ".")
			git("commit", "-qm", "b", "--allow-empty")
			got := loaded(t, root).Wrong(root)
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], Folder+c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestStale has a page say since when its figures are stale, until the code is again what was
// measured.
func TestStale(t *testing.T) {
	root, _ := repository(t)
	commit := loaded(t, root).Run("qcon/a-fair").Source.Commit
	refresh := func(today string) *Runs {
		t.Helper()
		if err := loaded(t, root).Refresh(root, today); err != nil {
			t.Fatal(err)
		}
		all := loaded(t, root)
		if got := all.Wrong(root); len(got) > 0 {
			t.Errorf("after a refresh: %q", got)
		}
		return all
	}
	fresh := func(all *Runs) {
		t.Helper()
		if got := all.Stale(); len(got) > 0 {
			t.Errorf("stale: %q", got)
		}
		if got, want := all.Run("qcon/a-fair").Source.Measured(), "`"+commit[:12]+"`"; got != want {
			t.Errorf("a page says %s, want %s", got, want)
		}
	}

	fresh(refresh("2026-01-01"))
	put(t, root, "bpf/a.h", strings.Repeat("b\n", 300))
	for _, today := range []string{"2026-01-02", "2026-01-03"} { // the first day stays
		all := refresh(today)
		if got, want := all.Run("qcon/a-fair").Source.Measured(), "`"+commit[:12]+"` (**stale since 2026-01-02: more than 400 lines of the data plane have changed**)"; got != want {
			t.Errorf("a page says %s, want %s", got, want)
		}
		if got := all.Stale(); len(got) != 1 || !strings.HasPrefix(got[0], "1 runs of `"+commit[:12]+"` (**stale since 2026-01-02") {
			t.Errorf("%q", got)
		}
	}
	put(t, root, "bpf/a.h", strings.Repeat("a\n", 300))
	if got := loaded(t, root).Wrong(root); len(got) != 1 {
		t.Errorf("stale.txt names what is fresh: %q", got)
	}
	fresh(refresh("2026-01-04"))
}

func TestDamagedListOfStaleCommits(t *testing.T) {
	root, _ := repository(t)
	put(t, root, Folder+"/stale.txt", "0123 2026-01-01\n")
	if _, err := Load(os.DirFS(filepath.Join(root, Folder))); err == nil || !strings.HasPrefix(err.Error(), Folder+"/stale.txt: ") {
		t.Error(err)
	}
}

// A clone without history, as CI's might be, has to say what it lacks.
func TestWrongInAShallowClone(t *testing.T) {
	root, git := repository(t)
	put(t, root, "docs/b.md", "b")
	git("add", ".")
	git("commit", "-qm", "b")
	put(t, root, "docs/c.md", "c")
	git("add", ".")
	git("commit", "-qm", "c")
	clone := t.TempDir()
	git("clone", "-q", "--depth", "1", "file://"+root, clone)
	if got := loaded(t, clone).Wrong(clone); len(got) != 1 || !strings.Contains(got[0], "git fetch --unshallow") {
		t.Errorf("%q", got)
	}
	t.Setenv(withoutHistory, "yes")
	if got := loaded(t, clone).Wrong(clone); len(got) != 0 {
		t.Errorf("where history need not be there: %q", got)
	}
}

func TestCompareNamesFileAndLine(t *testing.T) {
	root := t.TempDir()
	put(t, root, "a.md", "one\ntwo 3\nthree\n")
	put(t, root, "b.md", "same\n")
	got := Compare(root, []string{"a.md", "b.md", "c.md"}, map[string][]byte{"a.md": []byte("one\ntwo 2\nthree\n"), "b.md": []byte("same\n"), "c.md": nil})
	if len(got) != 2 || got[0] != `a.md:2: "two 3", the data says "two 2"; run make figures` || !strings.HasPrefix(got[1], "c.md: ") {
		t.Errorf("%q", got)
	}
}

func TestBlocks(t *testing.T) {
	text := func(name, present string) (string, error) {
		if name == "broken" {
			return "", fmt.Errorf("run x is missing")
		}
		if name == "kept" {
			return present, nil
		}
		return "new " + name + "\n", nil
	}
	if HasBlocks([]byte("write `<!-- figures: NAME -->`")) {
		t.Error("an example counts as a block")
	}
	got, err := Blocks([]byte("a\n<!-- figures: t -->\nold\n<!-- /figures -->\nb <!-- figures: n -->old<!-- /figures --> c <!-- figures: kept -->1.5<!-- /figures -->\n"), text)
	if want := "a\n<!-- figures: t -->\nnew t\n<!-- /figures -->\nb <!-- figures: n -->new n<!-- /figures --> c <!-- figures: kept -->1.5<!-- /figures -->\n"; err != nil || string(got) != want {
		t.Errorf("%s (%v)", got, err)
	}
	for page, want := range map[string]string{
		"<!-- figures: t -->":                       "1 blocks begin",
		"<!-- figures: broken --><!-- /figures -->": "block broken: run x is missing",
	} {
		if _, err := Blocks([]byte(page), text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", page, err)
		}
	}
}
