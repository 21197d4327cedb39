// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/policy/framing"
	"weir/internal/test/goldentest"
)

// golden runs compute on each archive in a folder of testdata. Compute reads its
// input from the archive's sections and returns what the output section should be.
func golden(t *testing.T, folder, output string, compute func(t *testing.T, in map[string]string) string) {
	paths, err := filepath.Glob(filepath.Join("testdata", folder, "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no archives in testdata/%s: %v", folder, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			in := map[string]string{}
			for _, f := range archive.Files {
				in[f.Name] = string(f.Data)
			}
			got := compute(t, in)
			if *goldentest.Update {
				archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return f.Name == output })
				archive.Files = append(archive.Files, txtar.File{Name: output, Data: []byte(got)})
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != in[output] {
				t.Errorf("%s differs; look at the change, then: go test ./internal/core/plan -update\n--- got\n%s--- want\n%s", path, got, in[output])
			}
		})
	}
}

// line is one line of a section: a noun, its names, and properties.
//
//	class 3 web weight=3 min=20mbit
type line struct {
	t     *testing.T
	words []string
	props map[string]string
}

func lines(t *testing.T, section string) []line {
	var list []line
	for text := range strings.Lines(section) {
		text, _, _ = strings.Cut(text, "#")
		l := line{t: t, props: map[string]string{}}
		for _, word := range strings.Fields(text) {
			if name, value, ok := strings.Cut(word, "="); ok {
				l.props[name] = value
			} else {
				l.words = append(l.words, word)
			}
		}
		if len(l.words) > 0 {
			list = append(list, l)
		}
	}
	return list
}

func (l line) number(text string) int {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		l.t.Fatalf("%v: %v", l.words, err)
	}
	return n
}

func (l line) amount(name string) policy.Amount {
	a, err := policy.ParseAmount(l.props[name])
	if err != nil {
		l.t.Fatalf("%v: %v", l.words, err)
	}
	return a
}

func (l line) limit() Limit {
	return Limit{Packets: uint32(l.number(l.props["packets"])), Bytes: uint64(l.number(l.props["bytes"]))}
}

// link reads "link eth0 100mbit reserve=0.9 scheduler=qcon".
func (l line) link() Link {
	capacity, err := policy.ParseRate(l.words[2])
	if err != nil {
		l.t.Fatalf("%v: %v", l.words, err)
	}
	link := Link{Device: l.words[1], Capacity: capacity, Reserve: 1, Scheduler: SchedulerFair, Framing: framing.Framing{Overhead: l.number(l.props["overhead"])}, Limit: l.limit()}
	if s, ok := l.props["reserve"]; ok {
		if link.Reserve, err = strconv.ParseFloat(s, 64); err != nil {
			l.t.Fatalf("%v: %v", l.words, err)
		}
	}
	if s, ok := l.props["scheduler"]; ok {
		link.Scheduler = s
	}
	return link
}

// workload reads "workload docker:web web weight=3 min=20% max=50mbit group=a
// ports=veth1:11,veth2:12" and "group a weight=2".
func (l line) workload() Workload {
	limit := l.limit()
	w := Workload{Key: l.words[1], Name: l.words[len(l.words)-1], Policy: policy.Policy{
		Weight: 1, Min: l.amount("min"), Max: l.amount("max"), Reserve: l.amount("reserve"), LimitPackets: limit.Packets, LimitBytes: limit.Bytes,
	}}
	w.Group, w.Policy.Group = l.words[0] == "group", l.props["group"]
	if w.Group {
		w.Key, w.Name = GroupKey(l.words[1]), l.words[1]
	}
	if s, ok := l.props["weight"]; ok {
		w.Policy.Weight = uint32(l.number(s))
	}
	for _, p := range strings.FieldsFunc(l.props["ports"], func(r rune) bool { return r == ',' }) {
		device, index, _ := strings.Cut(p, ":")
		w.Ports = append(w.Ports, Port{Device: device, Ifindex: l.number(index)})
	}
	return w
}

// parseState reads links, classes and ports.
func parseState(t *testing.T, section string) State {
	var s State
	for _, l := range lines(t, section) {
		switch l.words[0] {
		case "link":
			s.Link = l.link()
		case "class", "group":
			c := usual(Class{ID: ClassID(l.number(l.words[1])), Name: l.words[2], Weight: 1,
				Min: l.amount("min").Rate, Max: l.amount("max").Rate, Limit: l.limit(),
				Parent: ClassID(l.number(l.props["parent"])), Reserve: l.amount("reserve").Rate,
				Interval: Interval(l.number(l.props["interval"]))})
			if l.words[0] == "group" {
				c.Group, c.AQM = true, AQM{}
			}
			if w, ok := l.props["weight"]; ok {
				c.Weight = uint32(l.number(w))
			}
			s.Classes = append(s.Classes, c)
		case "port":
			s.Ports = append(s.Ports, Port{Device: l.words[1], Ifindex: l.number(l.words[2]), Class: ClassID(l.number(l.props["class"]))})
		default:
			t.Fatalf("%v is no part of a state", l.words)
		}
	}
	return s
}

// usual is the class with the default discipline.
func usual(c Class) Class {
	c.Discipline = discipline.SFQ
	c.AQM = AQM{Target: discipline.DefaultTarget, Interval: discipline.DefaultInterval}
	return c
}

// formatState writes what parseState reads.
func formatState(s State) string {
	var b strings.Builder
	if s.Link != (Link{}) {
		fmt.Fprintf(&b, "link %s %s reserve=%v scheduler=%s%s\n", s.Link.Device, s.Link.Capacity.Compact(), s.Link.Reserve, s.Link.Scheduler, formatLimit(s.Link.Limit))
	}
	for _, c := range s.Classes {
		fmt.Fprintf(&b, "%s %d %s weight=%d", noun(c), c.ID, c.Name, c.Weight)
		if c.Min != 0 {
			fmt.Fprintf(&b, " min=%s", c.Min.Compact())
		}
		if c.Max != 0 {
			fmt.Fprintf(&b, " max=%s", c.Max.Compact())
		}
		if c.Reserve != 0 {
			fmt.Fprintf(&b, " reserve=%s", c.Reserve.Compact())
		}
		if c.Interval != 0 {
			fmt.Fprintf(&b, " interval=%d", c.Interval)
		}
		if c.Parent != 0 {
			fmt.Fprintf(&b, " parent=%d", c.Parent)
		}
		fmt.Fprintln(&b, formatLimit(c.Limit))
	}
	for _, p := range s.Ports {
		fmt.Fprintf(&b, "port %s %d class=%d\n", p.Device, p.Ifindex, p.Class)
	}
	return b.String()
}

func formatLimit(l Limit) string {
	text := ""
	if l.Packets != 0 {
		text += fmt.Sprintf(" packets=%d", l.Packets)
	}
	if l.Bytes != 0 {
		text += fmt.Sprintf(" bytes=%d", l.Bytes)
	}
	return text
}

func formatNumbers(numbers map[string]ClassID) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(numbers)) {
		fmt.Fprintf(&b, "number %s %d\n", key, numbers[key])
	}
	return b.String()
}

// noun is the keyword of a class in the tests' text.
func noun(c Class) string {
	if c.Group {
		return "group"
	}
	return "class"
}
