// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/dev/figures"
	"weir/internal/dev/markdown"
)

// Heading is that of a page's list.
const Heading = "Part by part"

const head = `# The five papers, part by part

Written by ` + "`make figures`" + ` from [data/parts](data/parts); edits are lost. Weir builds the systems of five papers. This is the
index of what the papers consist of: each figure, table, equation, algorithm, parameter, claim and future work, in the papers'
order, and whether Weir has it. A paper's page has the paper's numbers beside Weir's, and the reasons.

* **there**: as the paper has it.
* **in another form**: what the paper wants is there, done in another way, for the reason that is given.
* **otherwise**: it is there, and what was measured is not what the paper shows; the reason is given.
* **half**: a workload, a baseline, a curve or a part is left out.
* **missing**: nothing of it is there.
* **not here**: the machine that it needs is none that this project has.
`

// Index returns the page of all parts.
func Index(list []Paper) string {
	var w markdown.Writer
	w.Line("%s", head)
	counts(&w, list)
	for _, p := range list {
		w.Line("## %s\n\n*%s*: [its page](%s.md#part-by-part) has the numbers.\n", short[p.Name], p.Title, p.Name)
		w.Head("", "part", "kind", "state", "where", "why")
		for i, part := range p.Parts {
			w.Row(fmt.Sprint(i+1), part.Part, part.Kind, mark(part.State), part.links("docs/papers"), part.Why)
		}
		w.Line("")
	}
	return strings.TrimSuffix(w.String(), "\n")
}

// short are the papers' names for people.
var short = map[string]string{"qcon": "qCon", "ancs": "ANCS", "c-balancer": "C-Balancer", "sdn": "SDN", "cps": "CPS"}

// counts is the table of how many parts are in which state.
func counts(w *markdown.Writer, list []Paper) {
	w.Numbers(append(append([]string{"paper"}, States...), "all")...)
	all := make([]int, len(States)+1)
	for _, p := range list {
		seen := make([]int, len(States)+1)
		for i, state := range States {
			for _, part := range p.Parts {
				if part.State == state {
					seen[i]++
				}
			}
		}
		seen[len(States)] = len(p.Parts)
		for i, n := range seen {
			all[i] += n
		}
		w.Row(cells(fmt.Sprintf("[%s](#%s)", short[p.Name], markdown.Anchor(short[p.Name])), seen)...)
	}
	w.Row(cells("**all**", all)...)
	w.Line("")
}

func cells(first string, numbers []int) []string {
	list := []string{first}
	for _, n := range numbers {
		list = append(list, fmt.Sprint(n))
	}
	return list
}

// Of returns the list of the paper of a name for its page, which is in folder: "" if it has none.
// It begins with its heading.
func Of(list []Paper, name string, data *figures.Runs, folder string) (string, error) {
	i := slices.IndexFunc(list, func(p Paper) bool { return p.Name == name })
	if i < 0 {
		return "", nil
	}
	p := list[i]
	var w markdown.Writer
	index, err := filepath.Rel(folder, "docs/papers/README.md")
	if err != nil {
		return "", err
	}
	w.Line("## %s\n\nAll of the paper in its own order, and where it is here ([the states](%s)).\n", Heading, index)
	w.Head("part", "the paper", "here", "state", "where", "why")
	for _, part := range p.Parts {
		ours, err := part.Text(data)
		if err != nil {
			return "", fmt.Errorf("%s/%s.yaml: %w", Folder, p.Name, err)
		}
		w.Row(part.Part, part.Paper, ours, mark(part.State), part.links(folder), part.Why)
	}
	return w.String(), nil
}

// mark sets off the states that are not what they are to be.
func mark(state string) string {
	if state == Half || state == Missing {
		return "**" + state + "**"
	}
	return state
}

// links returns links to the places of a part, from a page in folder.
func (p PaperPart) links(folder string) string {
	var list []string
	for _, place := range p.Where {
		file, heading, _ := strings.Cut(place, "#")
		target, err := filepath.Rel(folder, file)
		if err != nil {
			target = file
		}
		name := strings.TrimPrefix(file, "docs/")
		if heading != "" {
			target += "#" + heading
			name = strings.TrimSuffix(path.Base(file), ".md") + ": " + strings.ReplaceAll(heading, "-", " ")
		}
		list = append(list, fmt.Sprintf("[%s](%s)", name, target))
	}
	return strings.Join(list, ", ")
}
