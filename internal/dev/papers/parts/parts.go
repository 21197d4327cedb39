// SPDX-License-Identifier: Apache-2.0

// Package parts lays each of the five papers beside Weir, part by part: every figure, table,
// equation, algorithm, parameter, claim and future work in the paper's order, with its state here.
// The lists are docs/papers/data/parts/PAPER.yaml; package main makes the index
// docs/papers/README.md of them, and the section "Part by part" of each paper's page.
//
//   - part: "Figure 8: one to five containers join"
//     kind: figure
//     state: there
//     paper: 12 and 24 Mbit/s of goodput in the last case
//     ours: '{{rate "qcon/fig08-fair" 5 "c2"}} Mbit/s on the wire'
//     where: [docs/papers/qcon.md#figure-8-containers-join, lab/qcon/fig08.yaml]
//
// A number of Weir's is no text: it is taken from a run (numbers.go), so that it changes with
// the next measurement.
package parts

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/base/strictyaml"
)

// Folder is the folder of the lists, below the module's root.
const Folder = "docs/papers/data/parts"

// The states that a part may have.
const (
	There     = "there"           // as the paper has it
	Form      = "in another form" // and the reason says why
	Otherwise = "otherwise"       // it is there and measures otherwise than in the paper
	Half      = "half"            // something of it is left out
	Missing   = "missing"         // nothing of it is there
	NotHere   = "not here"        // no machine of the project can have it
)

// States are all states, the best first.
var States = []string{There, Form, Otherwise, Half, Missing, NotHere}

// kinds are what a part may be.
var kinds = []string{"design", "algorithm", "equation", "parameter", "set-up", "figure", "table", "claim", "use", "limit", "future work"}

// PaperPart is one part of a paper, beside what Weir has of it.
type PaperPart struct {
	Part  string   `yaml:"part"` // as the paper calls it, with its section
	Kind  string   `yaml:"kind"`
	State string   `yaml:"state"`
	Paper string   `yaml:"paper"` // what the paper has of it: its number, where it prints one
	Ours  string   `yaml:"ours"`  // what Weir has: a template, see numbers.go
	Where []string `yaml:"where"` // files from the module's root, a page with its heading perhaps
	Why   string   `yaml:"why"`   // the reason, for every state but there
}

// Paper is one paper and its parts in its own order.
type Paper struct {
	Name  string // of its file and its page
	Title string
	Parts []PaperPart
}

var titles = []Paper{
	{Name: "qcon", Title: "qCon: QoS-Aware Network Resource Management for Fog Computing"},
	{Name: "ancs", Title: "ANCS: Achieving QoS through Dynamic Allocation of Network Resources in Virtualized Clouds"},
	{Name: "c-balancer", Title: "C-Balancer: A System for Container Profiling and Scheduling"},
	{Name: "sdn", Title: "Packet Scheduling techniques based on Software Defined Networking"},
	{Name: "cps", Title: "CPS: Operating System Architecture for Efficient Network Resource Management with Control-Theoretic Packet Scheduler"},
}

// Load reads the lists of all papers below the module's root and checks each part.
func Load(root string) ([]Paper, error) {
	list := slices.Clone(titles)
	for i := range list {
		name := list[i].Name + ".yaml"
		text, err := os.ReadFile(filepath.Join(root, Folder, name))
		if err != nil {
			return nil, err
		}
		var file struct {
			Parts []PaperPart `yaml:"parts"`
		}
		if err := strictyaml.Read(Folder+"/"+name, text, &file); err != nil {
			return nil, err
		}
		list[i].Parts = file.Parts
		for _, p := range file.Parts {
			if err := p.check(); err != nil {
				return nil, fmt.Errorf("%s/%s: %q: %w", Folder, name, p.Part, err)
			}
		}
	}
	return list, nil
}

// check refuses a part that does not say what it has to.
func (p PaperPart) check() error {
	switch {
	case p.Part == "" || p.Paper == "":
		return fmt.Errorf("it says not what the paper has")
	case !slices.Contains(kinds, p.Kind):
		return fmt.Errorf("kind %q is none of %s", p.Kind, strings.Join(kinds, ", "))
	case !slices.Contains(States, p.State):
		return fmt.Errorf("state %q is none of %s", p.State, strings.Join(States, ", "))
	case p.State != There && p.Why == "":
		return fmt.Errorf("state %s needs a reason", p.State)
	case p.Ours == "" && p.State != Missing && p.State != NotHere:
		return fmt.Errorf("state %s, and it says not what is here", p.State)
	case len(p.Where) == 0 && p.State != Missing && p.State != NotHere:
		return fmt.Errorf("state %s, and it names no place", p.State)
	}
	return nil
}
