// SPDX-License-Identifier: Apache-2.0

package parts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/dev/figures"
)

const root = "../../../.."

func loaded(t *testing.T) []Paper {
	t.Helper()
	list, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEveryPartIsListed holds the lists to what the papers consist of, and to few parts that no
// machine of the project can have.
func TestEveryPartIsListed(t *testing.T) {
	all, notHere, seen := 0, 0, map[string]bool{}
	for _, p := range loaded(t) {
		if want := map[string]int{"qcon": 36, "ancs": 28, "c-balancer": 40, "sdn": 27, "cps": 32}[p.Name]; len(p.Parts) != want {
			t.Errorf("%s has %d parts, the paper %d", p.Name, len(p.Parts), want)
		}
		for _, part := range p.Parts {
			all++
			if seen[p.Name+part.Part] {
				t.Errorf("%s: %q stands twice", p.Name, part.Part)
			}
			seen[p.Name+part.Part] = true
			if part.State == NotHere {
				notHere++
			}
		}
	}
	if all != 163 || notHere > 12 {
		t.Errorf("%d parts, %d of them not here; want 163 and at most 12", all, notHere)
	}
}

// TestPlacesAreThere looks for each file and each heading that a part names.
func TestPlacesAreThere(t *testing.T) {
	for _, p := range loaded(t) {
		for _, part := range p.Parts {
			for _, place := range part.Where {
				file, heading, _ := strings.Cut(place, "#")
				text, err := os.ReadFile(filepath.Join(root, file))
				if info, wrong := os.Stat(filepath.Join(root, file)); wrong != nil {
					t.Errorf("%s: %q: %v", p.Name, part.Part, wrong)
					continue
				} else if info.IsDir() {
					continue
				}
				if err != nil || heading != "" && !hasHeading(string(text), heading) {
					t.Errorf("%s: %q: %s has no heading %s", p.Name, part.Part, file, heading)
				}
			}
		}
	}
}

// hasHeading says whether a page has a heading with the anchor.
func hasHeading(page, anchor string) bool {
	keep := func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '_' || r == '-' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}
	for line := range strings.Lines(page) {
		if title, found := strings.CutPrefix(strings.TrimLeft(strings.TrimSpace(line), "#"), " "); found && strings.HasPrefix(line, "#") {
			if strings.Map(keep, strings.ToLower(strings.TrimSpace(title))) == anchor {
				return true
			}
		}
	}
	return false
}

// TestNumbersAreMeasured fills in what each part has of the runs.
func TestNumbersAreMeasured(t *testing.T) {
	data, err := figures.Load(os.DirFS(filepath.Join(root, figures.Folder)))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded(t) {
		for _, part := range p.Parts {
			text, err := part.Text(data)
			if err != nil {
				t.Error(err)
			}
			if part.State == There && strings.Contains(text, Unmeasured) {
				t.Errorf("%s: %q is there, and not measured: %s", p.Name, part.Part, text)
			}
		}
	}
}

// TestPartsThatSayTooLittleAreRefused has one fault in each part.
func TestPartsThatSayTooLittleAreRefused(t *testing.T) {
	good := PaperPart{Part: "Figure 1", Kind: "figure", State: Half, Paper: "a curve", Ours: "half of it", Where: []string{"docs"}, Why: "time"}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(p *PaperPart){
		"kind":   func(p *PaperPart) { p.Kind = "picture" },
		"state":  func(p *PaperPart) { p.State = "nearly" },
		"reason": func(p *PaperPart) { p.Why = "" },
		"ours":   func(p *PaperPart) { p.Ours = "" },
		"where":  func(p *PaperPart) { p.Where = nil },
		"paper":  func(p *PaperPart) { p.Paper = "" },
	} {
		bad := good
		if spoil(&bad); bad.check() == nil {
			t.Errorf("a part without a right %s was taken", name)
		}
	}
}
