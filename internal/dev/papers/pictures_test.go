// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// box is what a text or a bar of a picture covers, in pixels, y downwards.
type box struct {
	x, y, width, height float64
	what                string
}

func (b box) covers(o box) bool {
	const touch = 0.5 // neighbours may touch
	return b.x+touch < o.x+o.width && o.x+touch < b.x+b.width && b.y+touch < o.y+o.height && o.y+touch < b.y+b.height
}

// picture is what an SVG shows: its texts, and the bars and swatches of package charts.
type picture struct {
	width, height float64
	texts, bars   []box
	curves        int
}

// drawn reads an SVG of package charts or of gonum, which has texts by their left end and
// turns y upside down.
func drawn(t *testing.T, text []byte) picture {
	t.Helper()
	var p picture
	d := xml.NewDecoder(strings.NewReader(string(text)))
	var turned []bool // of the groups that are open: the vertical axis's name stands beside everything
	for {
		token, err := d.Token()
		if err != nil {
			return p
		}
		if end, is := token.(xml.EndElement); is && end.Name.Local == "g" {
			turned = turned[:len(turned)-1]
		}
		begin, is := token.(xml.StartElement)
		if !is {
			continue
		}
		a := map[string]string{}
		for _, attr := range begin.Attr {
			a[attr.Name.Local] = attr.Value
		}
		number := func(name string) float64 {
			v, _ := strconv.ParseFloat(strings.TrimSuffix(a[name], "pt"), 64)
			return v
		}
		switch begin.Name.Local {
		case "g":
			turned = append(turned, strings.Contains(a["transform"], "rotate"))
		case "svg":
			p.width, p.height = number("width"), number("height")
		case "text":
			var content string
			if err := d.DecodeElement(&content, &begin); err != nil {
				t.Fatal(err)
			}
			size, x, y := number("font-size"), number("x"), number("y")
			if style := a["style"]; style != "" {
				_, after, _ := strings.Cut(style, "font-size:")
				size, _ = strconv.ParseFloat(strings.TrimSuffix(after, "px"), 64)
				if strings.Contains(a["transform"], "scale(1, -1)") {
					y += p.height
				}
				if slices.Contains(turned, true) {
					continue
				}
			}
			width := 0.5 * size * float64(len([]rune(content)))
			switch a["text-anchor"] {
			case "middle":
				x -= width / 2
			case "end":
				x -= width
			}
			p.texts = append(p.texts, box{x, y - 0.8*size, width, size, content})
		case "rect":
			if a["fill"] != "#ffffff" {
				p.bars = append(p.bars, box{number("x"), number("y"), number("width"), number("height"), "a bar"})
			}
		case "polyline", "path":
			p.curves++
		}
	}
}

// faults are what a reader of the picture would stumble over.
func (p picture) faults() (list []string) {
	if p.width < 680 { // points of gonum: 907 pixels
		list = append(list, fmt.Sprintf("it is only %g wide", p.width))
	}
	if len(p.texts) < 5 {
		list = append(list, "it has no title, no unit, or no names")
	}
	for i, a := range p.texts {
		if a.x < 0 || a.y < -1 || a.x+a.width > p.width || a.y+a.height > p.height+1 {
			list = append(list, fmt.Sprintf("%q is not all inside", a.what))
		}
		for _, b := range p.texts[i+1:] {
			if a.covers(b) {
				list = append(list, fmt.Sprintf("%q stands over %q", a.what, b.what))
			}
		}
		for _, b := range p.bars {
			if a.covers(b) {
				list = append(list, fmt.Sprintf("a bar covers %q", a.what))
			}
		}
	}
	for _, b := range p.bars {
		if b.x < 0 || b.y < 0 || b.x+b.width > p.width || b.y+b.height > p.height {
			list = append(list, "a bar is not all inside")
		}
	}
	return list
}

// TestPicturesAreLegible looks at every picture of docs/papers.
func TestPicturesAreLegible(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../../../docs/papers", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".svg" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		seen++
		for _, fault := range drawn(t, text).faults() {
			t.Errorf("%s: %s", strings.TrimPrefix(file, "../../../"), fault)
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Errorf("%d pictures: %v", seen, err)
	}
}

// TestFaultsOfPicturesAreFound has a picture with a fault of each kind.
func TestFaultsOfPicturesAreFound(t *testing.T) {
	const frame = `<svg width="900" height="400">%s<text x="450" y="20" font-size="14" text-anchor="middle">Title</text>
<text x="10" y="50" font-size="12">Mbit/s</text><text x="10" y="100" font-size="12">1</text>
<text x="100" y="390" font-size="12">c1</text><text x="200" y="390" font-size="12">c2</text></svg>`
	for inside, want := range map[string]int{
		"": 0,
		`<text x="101" y="392" font-size="12">c3</text>`:                 1,
		`<text x="890" y="300" font-size="12">a long name</text>`:        1,
		`<rect x="90" y="380" width="40" height="10" fill="#000000"/>`:   1,
		`<rect x="300" y="300" width="40" height="200" fill="#000000"/>`: 1,
		`<rect x="300" y="300" width="40" height="50" fill="#000000"/>`:  0,
	} {
		if got := drawn(t, []byte(fmt.Sprintf(frame, inside))).faults(); len(got) != want {
			t.Errorf("%s: %q, want %d", inside, got, want)
		}
	}
}
