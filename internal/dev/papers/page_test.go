// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/dev/figures"
	"weir/internal/test/goldentest"
)

// files is testdata/NAME of a paper, which has a few real runs, so that a test
// can change it.
func files(t *testing.T, p *paper) fstest.MapFS {
	t.Helper()
	raw := fstest.MapFS{}
	names, err := filepath.Glob(filepath.Join("testdata", p.name, "*.jsonl"))
	if err != nil || len(names) == 0 {
		t.Fatalf("testdata/%s has no runs: %v", p.name, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		raw[p.name+"/"+filepath.Base(name)] = &fstest.MapFile{Data: data}
	}
	return raw
}

// pageOf is the page of a paper's files, and the plots that it shows.
func pageOf(t *testing.T, p *paper, raw fs.FS) (string, []string) {
	t.Helper()
	data, err := figures.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := read(p, data, os.DirFS("../../../lab"))
	if err != nil {
		t.Fatal(err)
	}
	text, plots, _ := page(r)
	return text, plots
}

func TestPage(t *testing.T) {
	for _, c := range []struct {
		paper *paper
		plots string
	}{
		{&qcon, "fig11-fair fig11-qcon"},
		{&ancs, "fig05-ancs"},
		{&cps, "fig08-default-fair fig10b-fair"},
	} {
		t.Run(c.paper.name, func(t *testing.T) {
			got, plots := pageOf(t, c.paper, files(t, c.paper))
			if strings.Join(plots, " ") != c.plots {
				t.Errorf("plots %v, want %s", plots, c.plots)
			}
			goldentest.Check(t, filepath.Join("testdata", c.paper.name+".golden"), got)
		})
	}
}

// What falls short of its bar has to be told.
func TestPageTellsWhatIsNotHeld(t *testing.T) {
	for _, c := range []struct {
		name, file, old, new string
		bars, claims         int // that do not hold then
	}{
		{"nothing", "fig11-fair", `"phase":1`, `"phase":1`, 0, 0},
		{"a rate", "fig11-fair", `"error":0.0000`, `"error":0.0111`, 1, 0},
		{"utilisation", "fig11-fair", `"utilisation":0.99`, `"utilisation":0.98`, 1, 0},
		{"the paper's algorithm", "fig11-qcon", `"error":0.0`, `"error":0.5`, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := files(t, &qcon)
			f := raw["qcon/"+c.file+".jsonl"]
			changed := bytes.Replace(f.Data, []byte(c.old), []byte(c.new), 1)
			if bytes.Equal(changed, f.Data) && c.old != c.new {
				t.Fatalf("%s has no %s", c.file, c.old)
			}
			f.Data = changed
			text, _ := pageOf(t, &qcon, raw)
			before, _ := pageOf(t, &qcon, files(t, &qcon)) // the paper's own sentences that do not hold
			if got := strings.Count(text, "**no**"); got != c.bars {
				t.Errorf("%d bars are missed, the page says so of %d", c.bars, got)
			}
			if got := strings.Count(text, "**Does not hold**") - strings.Count(before, "**Does not hold**"); got != c.claims {
				t.Errorf("%d conclusions do not hold, the page says so of %d", c.claims, got)
			}
		})
	}
}

// The paper's words about its gains are held against the data, each.
func TestGainsAreJudged(t *testing.T) {
	raw := files(t, &cps)
	base := raw["cps/fig08-default-fair.jsonl"].Data
	put := func(name, rise, overshoot, settle string) {
		text := base[bytes.IndexByte(base, '\n')+1:]
		first := text[:bytes.IndexByte(text, '\n')+1] // the workload in phase 1
		for key, value := range map[string]string{"rise_s": rise, "overshoot": overshoot, "settle_s": settle} {
			at := bytes.Index(first, []byte(`"`+key+`":`)) + len(key) + 3
			end := at + bytes.IndexByte(first[at:], ',')
			first = []byte(string(first[:at]) + value + string(first[end:]))
		}
		rest := text[bytes.IndexByte(text, '\n')+1:]
		rest = rest[:bytes.IndexByte(rest, '\n')+1] // the link in phase 1
		head := base[:bytes.IndexByte(base, '\n')+1]
		raw["cps/"+name+"-fair.jsonl"] = &fstest.MapFile{Data: []byte(string(head) + string(first) + string(rest))}
	}
	put("fig08a-slow", "19", "0", "35")
	put("fig08a-right", "2", "0.022", "6")
	put("fig08a-overshoot", "2", "0.069", "11") // no faster, and no large overshoot
	text, _ := pageOf(t, &cps, raw)
	for says, verdict := range map[string]string{
		"slowest rise, no overshoot, settling too long": "yes",
		"fast, negligible overshoot":                    "yes",
		"fastest, very large overshoot":                 "**no**",
	} {
		if !strings.Contains(text, "| "+says+" | "+verdict+" |") {
			t.Errorf("the page does not say %s to %q:\n%s", verdict, says, text)
		}
	}
}

func TestReadRefusesHalfARun(t *testing.T) {
	raw := files(t, &qcon)
	f := raw["qcon/fig11-fair.jsonl"]
	f.Data = bytes.Join(bytes.SplitAfter(f.Data, []byte("\n"))[:5], nil)
	data, err := figures.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(&qcon, data, os.DirFS("../../../lab")); err == nil {
		t.Error("a run that was cut off was read without complaint")
	}
}
