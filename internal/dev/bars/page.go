// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/dev/figures"
)

const head = `# The bars

Written by ` + "`go run ./internal/dev/bars`" + `; edits are lost. All that Weir has to hold, each with a command that fails (exit
status 1) when it does not. The first part are the ` + "`expect`" + ` entries of the scenario files
([what they mean](scenario.md#expect)): the figure is what was measured last, the worst where there are several, and
"not measured" where no run has been recorded for the entry as it stands. Figures are of the runs in docs/papers/data, and
where those have none, of docs/bars.jsonl: ` + "`scripts/bars FILE...`" + ` measures in the VM, in virtual
time, and records. The second part are promises that tests hold.

An entry that does not hold stays, and says **no**.
`

// page is the text of docs/bars.md.
func page(root string) (string, error) {
	files, err := scenarios(root)
	if err != nil {
		return "", err
	}
	own, err := recorded(filepath.Join(root, dataFile))
	if err != nil {
		return "", err
	}
	runs, err := figures.Load(os.DirFS(filepath.Join(root, figures.Folder)))
	if err != nil {
		return "", err
	}
	areas, err := promises(root)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(head)
	folder := ""
	for _, f := range files {
		if dir := path.Dir(f.path); dir != folder {
			folder = dir
			fmt.Fprintf(&b, "\n## %s\n", folder)
		}
		var data []figure
		if f.machine { // runs of clusters keep events, of which no verdict can be made
			if data, err = fromRuns(root, runs, f.path); err != nil {
				return "", err
			}
		}
		writeFile(&b, f, append(data, own...))
	}
	b.WriteString("\n## What tests hold\n")
	for _, a := range areas {
		fmt.Fprintf(&b, "\n### %s\n\n| what | bar | command |\n|---|---|---|\n", a.Area)
		for _, p := range a.Promises {
			fmt.Fprintf(&b, "| %s | %s | `%s` |\n", cell(p.What), cell(p.Bar), cell(p.command()))
		}
	}
	return b.String(), nil
}

// writeFile writes a scenario file's entries as a table.
func writeFile(b *strings.Builder, f scenarioFile, data []figure) {
	fmt.Fprintf(b, "\n### [%s](../%s): %s\n\n`%s`\n\n| bar | measured | holds | when |\n|---|---|---|---|\n", path.Base(f.path), f.path, f.name, f.command())
	for _, entry := range slices.Compact(f.expect) {
		var list []figure
		for _, d := range data { // those of runs are first
			if d.File == f.path && d.Expect == entry && !slices.ContainsFunc(list, d.sameBar) {
				list = append(list, d)
			}
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", cell(entry), measured(list))
	}
}

// measured are the cells of an entry's figures: what, whether it holds, when.
func measured(list []figure) string {
	if len(list) == 0 {
		return "not measured | |"
	}
	holds := "yes"
	var texts, when []string
	for _, f := range list {
		text := f.Figure
		if text == "" {
			text = "nothing"
		}
		if len(list) > 1 {
			text = f.Check + " " + f.Scheduler + ": " + text
		}
		texts = append(texts, text)
		if w := fmt.Sprintf("%s, %s, %s", f.Date, f.Commit, f.Kernel); !slices.Contains(when, w) {
			when = append(when, w)
		}
		if !f.Holds {
			holds = "**no**"
		}
	}
	return fmt.Sprintf("%s | %s | %s", cell(strings.Join(texts, "; ")), holds, strings.Join(when, "; "))
}

// cell is text within a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", "\\|") }
