// SPDX-License-Identifier: Apache-2.0

// Papers writes docs/papers/qcon.md: the experiments of the qCon paper, what
// Weir measured for each, and what the two have to do with each other. It reads
// what scripts/papers left in a folder (FIGURE-SCHEDULER.json of `weir lab run
// --json`, and a folder FIGURE-SCHEDULER with the plot) and the scenario files
// in lab/qcon, and runs nothing itself:
//
//	go run ./internal/lab/papers out/papers lab/qcon docs/papers
//
// Every figure on the page comes from those files, so that the page cannot say
// what no run has shown; a run that is missing is named on the page. The texts
// beside the figures are in text.go.
package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "Usage: papers RAW SCENARIOS PAGES, such as out/papers lab/qcon docs/papers")
		os.Exit(2)
	}
	if err := write(os.DirFS(os.Args[1]), os.DirFS(os.Args[2]), os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "papers:", err)
		os.Exit(1)
	}
}

// write the page and the plots that it shows; plots of former pages go.
func write(raw, scenarios fs.FS, folder string) error {
	r, err := read(raw, scenarios)
	if err != nil {
		return err
	}
	if len(r.runs) == 0 {
		return fmt.Errorf("no run of lab/qcon has ended well; see the logs that scripts/papers left")
	}
	text, plots := page(r)
	images := filepath.Join(folder, "qcon")
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
	return os.WriteFile(filepath.Join(folder, "qcon.md"), []byte(text), 0o644)
}
