// SPDX-License-Identifier: Apache-2.0

// Papers writes docs/papers/NAME.md for each paper that it knows: the paper's
// experiments, what Weir measured for each, and what the two have to do with each
// other. It reads what scripts/papers left in a folder (NAME/SCENARIO-SCHEDULER.json
// of `weir lab run --json`, and a folder of that name with the plot) and the
// scenario files in lab/NAME, and runs nothing itself:
//
//	go run ./internal/lab/papers out/papers lab docs/papers
//	go run ./internal/lab/papers out/papers lab docs/papers sdn     # one page
//	go run ./internal/lab/papers -runs       # which runs the pages are made of
//
// Every figure on a page comes from those files, so that the page cannot say
// what no run has shown; a run that is missing is named on the page. A paper is
// data: text.go has qcon's, ancs.go that of ANCS, page.go the kinds of sections.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

var papers = []*paper{&qcon, &ancs, &sdn, &cps}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "-runs" {
		list()
		return
	}
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "Usage: papers RAW SCENARIOS PAGES [PAPER...], such as out/papers lab docs/papers; or papers -runs")
		os.Exit(2)
	}
	for _, p := range papers {
		if len(os.Args) > 4 && !slices.Contains(os.Args[4:], p.name) {
			continue
		}
		raw, scenarios := os.DirFS(filepath.Join(os.Args[1], p.name)), os.DirFS(filepath.Join(os.Args[2], p.name))
		if err := write(p, raw, scenarios, os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, "papers:", err)
			os.Exit(1)
		}
	}
}

// list prints PAPER SCENARIO SCHEDULER [OPTION], a line for each run.
func list() {
	for _, p := range papers {
		for _, w := range p.wanted() {
			option := ""
			if w.cpu {
				option = " --cpu"
			}
			fmt.Printf("%s %s %s%s\n", p.name, w.scenario, w.scheduler, option)
		}
	}
}

// write the page and the plots that it shows; plots of former pages go.
func write(p *paper, raw, scenarios fs.FS, folder string) error {
	r, err := read(p, raw, scenarios)
	if err != nil {
		return err
	}
	if len(r.runs) == 0 {
		return fmt.Errorf("no run of lab/%s has ended well; see the logs that scripts/papers left", p.name)
	}
	text, plots := page(r)
	images := filepath.Join(folder, p.name)
	if err := os.RemoveAll(images); err != nil {
		return err
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	for _, name := range plots {
		data, err := fs.ReadFile(raw, name+"/"+name+".svg")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(images, name+".svg"), data, 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, p.name+".md"), []byte(text), 0o644)
}
