// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"weir/internal/face/cli"
	"weir/internal/face/cli/frame"
)

var first = edition{"1.0", time.Unix(1764000000, 0).UTC()}

// TestEveryCommand: each command of weir has a page, which has each of its flags with the text
// that --help prints. Commands that weir hands over are in the packages of
// the programs that have them.
func TestEveryCommand(t *testing.T) {
	pages := map[string]string{}
	t.Chdir("../../..") // weir.yaml is read from there
	for name := range packages {
		made, err := packages[name](first)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range made {
			if pages[p.name] != "" {
				t.Errorf("two packages have %s", p.name)
			}
			pages[p.name] = p.text
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		text := pages[pageName(c)]
		if text == "" {
			t.Errorf("%s has no page", c.CommandPath())
		}
		if frame.ProgramOf(c) == "" {
			c.LocalFlags().VisitAll(func(f *pflag.Flag) {
				_, usage := pflag.UnquoteUsage(f)
				if f.Name != "help" && !strings.Contains(text, line(usage)) {
					t.Errorf("%s: --%s is not there", c.CommandPath(), f.Name)
				}
			})
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(cli.Root())
	for _, name := range []string{"weir.yaml", "weir-lab-run", "weir-demo", "weir-kubernetes", "kubectl-weir"} {
		if pages[name] == "" {
			t.Errorf("%s has no page", name)
		}
	}
}

// TestRoff: what man(7) would take for a request or an escape is seen as it was written.
func TestRoff(t *testing.T) {
	w := first.begin("x", "1", "a -b \"c\"")
	w.heading("DESCRIPTION")
	w.prose(".hidden 'file'\n'quoted' C:\\new\n\n  indented -x\n\nlast")
	for _, want := range []string{
		`x \- a \-b "c"`, "\n" + `\&.hidden 'file'`, "\n" + `\&'quoted' C:\enew`, ".nf\n  indented \\-x\n.fi\n.PP\nlast\n", ".SH \"DESCRIPTION\"\n\\&.hidden",
	} {
		if !strings.Contains(w.page().text, want) {
			t.Errorf("no %q in\n%s", want, w.page().text)
		}
	}
}

// TestWritten: pages are where man(1) looks for them, the same ones each time, and a package that
// is not known is refused.
func TestWritten(t *testing.T) {
	t.Chdir("../../..")
	written := func() string {
		folder := t.TempDir()
		if err := run("weir", first, []string{folder}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "man5/weir.yaml.5")); err != nil {
			t.Error(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, "man1/weir-set.1"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	one := written()
	if !strings.Contains(one, `.TH "WEIR\-SET" 1 "2025-11-24" "Weir 1.0" "Weir"`) {
		t.Errorf("%.200s", one)
	}
	if two := written(); two != one {
		t.Error("a second run writes another page")
	}
	if err := run("tc", first, []string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "weir, weir-kubernetes, weir-lab") {
		t.Errorf("%v", err)
	}
}
