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

	"weir/internal/goldentest"
)

// files is testdata/NAME of a paper, which has a few real runs, so that a test
// can change it.
func files(t *testing.T, p *paper) fstest.MapFS {
	t.Helper()
	raw := fstest.MapFS{}
	names, err := filepath.Glob(filepath.Join("testdata", p.name, "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("testdata/%s has no runs: %v", p.name, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		raw[base] = &fstest.MapFile{Data: data}
		raw[strings.TrimSuffix(base, ".json")+"/kernel"] = &fstest.MapFile{Data: []byte("7.3.4+deb13-cloud-amd64\n")}
	}
	return raw
}

func scenarios(p *paper) fs.FS { return os.DirFS("../../../lab/" + p.name) }

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
			r, err := read(c.paper, files(t, c.paper), scenarios(c.paper))
			if err != nil {
				t.Fatal(err)
			}
			got, plots := page(r)
			if strings.Join(plots, " ") != c.plots {
				t.Errorf("plots %v, want %s", plots, c.plots)
			}
			goldentest.Check(t, filepath.Join("testdata", c.paper.name+".golden"), got)
		})
	}
}

// What falls short of its bar has to be told.
func TestPageTellsWhatIsNotHeld(t *testing.T) {
	for _, c := range []struct{ name, file, old, new string }{
		{"a rate", "fig11-fair.json", `"error":0.0000`, `"error":0.0111`},
		{"utilisation", "fig11-fair.json", `"utilisation":0.99`, `"utilisation":0.98`},
		{"the paper's algorithm", "fig11-qcon.json", `"error":0.0`, `"error":0.5`},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := files(t, &qcon)
			changed := bytes.Replace(raw[c.file].Data, []byte(c.old), []byte(c.new), 1)
			if bytes.Equal(changed, raw[c.file].Data) {
				t.Fatalf("%s has no %s", c.file, c.old)
			}
			raw[c.file].Data = changed
			r, err := read(&qcon, raw, scenarios(&qcon))
			if err != nil {
				t.Fatal(err)
			}
			if text, _ := page(r); strings.Count(text, "**no**") != 1 {
				t.Errorf("one bar is missed, the page says so %d times", strings.Count(text, "**no**"))
			}
		})
	}
}

func TestReadRefusesHalfARun(t *testing.T) {
	raw := files(t, &qcon)
	data := raw["fig11-fair.json"].Data
	raw["fig11-fair.json"].Data = data[:bytes.IndexByte(data, '\n')*2]
	if _, err := read(&qcon, raw, scenarios(&qcon)); err == nil {
		t.Error("a run that was cut off was read without complaint")
	}
}

func TestWriteCopiesThePlots(t *testing.T) {
	raw, folder := files(t, &qcon), t.TempDir()
	for _, name := range []string{"fig11-fair", "fig11-qcon"} {
		raw[name+"/"+name+".svg"] = &fstest.MapFile{Data: []byte("<svg/>")}
	}
	old := filepath.Join(folder, "qcon", "old.svg")
	if err := os.MkdirAll(filepath.Dir(old), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(&qcon, raw, scenarios(&qcon), folder); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"qcon.md", "qcon/fig11-fair.svg", "qcon/fig11-qcon.svg"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(old); err == nil {
		t.Error("the plot of a former page is still there")
	}
}
