// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/cluster/optimize"
	"weir/internal/core/wire"
)

const text = `
name: two kinds
measure: mean
seed: 1
nodes:
  - {name: big, cpu_cores: 8, memory_bytes: 16e9, guaranteed_bps: 50000000}
  - {name: n, count: 3, cpu_cores: 4, memory_bytes: 8e9}
programs_file: other.yaml
programs:
  busy: {cpu_cores: 1, memory_bytes: 40e6, move_bytes: 30e6}
containers:
  - {program: busy, count: 4}
  - {program: idle, node: n2, pinned: true, apart: g, min_bps: 1000}
`

func readOther(name string) ([]byte, error) {
	if name != "folder/other.yaml" {
		return nil, errors.New("no such file")
	}
	return []byte("programs: {idle: {memory_bytes: 10e6}, busy: {cpu_cores: 7}}"), nil
}

func TestFile(t *testing.T) {
	f, err := Parse("folder/a.yaml", []byte(text), readOther)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.Problem()
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Nodes) != 4 || p.Nodes[3].Name != "n3" || p.Nodes[0].Guaranteed != 50e6 || p.Measure != optimize.MeasureMean {
		t.Errorf("%+v", p)
	}
	if len(p.Containers) != 5 || p.Containers[3].Name != "busy-4" || p.Containers[0].Demand[optimize.CPU] != 1 {
		t.Errorf("%+v", p.Containers)
	}
	idle := p.Containers[4]
	if idle.Name != "idle" || idle.Node != 2 || !idle.Pinned || idle.Group != "g" || idle.Min != 1000 || idle.Demand[optimize.Memory] != 10e6 {
		t.Errorf("%+v", idle)
	}
	on := map[int]int{}
	for _, c := range p.Containers {
		on[c.Node]++
	}
	if len(on) != 4 {
		t.Errorf("spread has used %d of 4 nodes", len(on))
	}
}

func TestBadFiles(t *testing.T) {
	for _, tt := range []struct{ name, from, to, want string }{
		{"a field that is not known", "seed: 1", "sead: 1", `a.yaml: [4:1] unknown field "sead"`},
		{"not a number", "cpu_cores: 8", "cpu_cores: many", `a.yaml: [6:28] cannot unmarshal string into Go struct field`},
		{"a program that is not known", "program: idle", "program: idel", `containers: program "idel" is not among the programs`},
		{"a node that is not known", "node: n2", "node: n9", `containers: node "n9" is not among the nodes`},
		{"a measure that is not known", "measure: mean", "measure: median", `measure "median" is not known; write load or mean`},
		{"two nodes of one name", "name: n,", "name: big, count: 1, #", "a.yaml:"},
		{"no memory", "memory_bytes: 16e9", "memory_bytes: 0", "node big: capacity of memory is 0"},
		{"too many", "count: 4", "count: 2000000", `containers: count 2000000 of "busy"; give 1 to 1000000 in all`},
		{"a file that is not there", "other.yaml", "else.yaml", `folder/a.yaml: programs_file "else.yaml": no such file`},
		{"launched by what", "seed: 1", "launch: swarm", `launch "swarm" is not known; write spread, binpack or random`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Parse("folder/a.yaml", []byte(strings.Replace(text, tt.from, tt.to, 1)), readOther)
			if err == nil {
				_, err = f.Problem()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want %s", err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(text)
	f.Add("nodes: [{name: n, count: 3, cpu_cores: .inf, memory_bytes: 1}]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Parse("folder/a.yaml", []byte(text), readOther)
		if err != nil {
			return
		}
		for _, g := range file.Nodes {
			if g.Count > 1000 {
				return
			}
		}
		for _, g := range file.Containers {
			if g.Count > 1000 {
				return
			}
		}
		if p, err := file.Problem(); err == nil {
			if s := p.Score(p.Initial()).S; math.IsNaN(s) {
				t.Errorf("S is %v", s)
			}
		}
	})
}

func FuzzRecorded(f *testing.F) {
	f.Add(record(f, "a", 1))
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := Recorded("f", []byte(text)); err == nil {
			if s := p.Score(p.Initial()).S; math.IsNaN(s) {
				t.Errorf("S is %v", s)
			}
		}
	})
}

func record(t testing.TB, node string, cpu float64) string {
	text, err := json.Marshal(wire.Profile{V: wire.ProfileVersion, Node: node, Time: time.Unix(int64(cpu), 0), IntervalSeconds: 5,
		Capacity:   wire.Capacity{CPUCores: 4, MemoryBytes: 8e9},
		Containers: []wire.ContainerProfile{{ID: node + "1", Name: "web", Usage: wire.Usage{CPUCores: cpu, MemoryBytes: 1e6}}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestRecorded(t *testing.T) {
	p, err := Recorded("f", []byte(record(t, "a", 1)+record(t, "b", 2)+"\n"+record(t, "a", 3)+record(t, "a", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Nodes) != 2 || len(p.Containers) != 2 || p.Containers[0].Demand[optimize.CPU] != 2 || p.Containers[1].Node != 1 {
		t.Errorf("%+v", p)
	}
	for text, want := range map[string]string{
		"":                      "f: there is no profile in it",
		record(t, "a", 1) + "{": "f:2: not a profile in JSON",
		`{"v":1}`:               "f:1: profile: node is empty",
	} {
		if _, err := Recorded("f", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}

// TestMakespan has examples that can be done by hand: 2 s fixed and 10 MB/s.
func TestMakespan(t *testing.T) {
	p := &optimize.Problem{Cost: optimize.MoveCost{FixedSeconds: 2, BytesPerSecond: 10e6}}
	for range 4 {
		p.Nodes = append(p.Nodes, optimize.Node{Capacity: optimize.Vector{optimize.Transmit: 160e6, optimize.Receive: 400e6}})
	}
	move := func(from, to int, megabytes float64) optimize.Relocation {
		return optimize.Relocation{From: from, To: to, Bytes: megabytes * 1e6}
	}
	for _, tt := range []struct {
		name     string
		parallel int
		moves    []optimize.Relocation
		want     float64
	}{
		{"none", 1, nil, 0},
		{"one", 1, []optimize.Relocation{move(0, 1, 10)}, 3},
		{"one after the other", 1, []optimize.Relocation{move(0, 1, 10), move(2, 3, 20)}, 3 + 4},
		{"at once", 2, []optimize.Relocation{move(0, 1, 10), move(2, 3, 20)}, 4},
		// 20 MB/s leave a node at most: three share them.
		{"a link that is shared", 3, []optimize.Relocation{move(0, 1, 20), move(0, 2, 20), move(0, 3, 20)}, 2 + 3},
		{"the second needs the first one's room", 2, []optimize.Relocation{move(1, 2, 10), move(0, 1, 0)}, 3 + 2},
		{"one waits and lets another pass", 2, []optimize.Relocation{move(1, 2, 10), move(0, 1, 0), move(3, 2, 10)}, 3 + 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Makespan(p, tt.moves, tt.parallel); math.Abs(got-tt.want) > 1e-6 {
				t.Errorf("%v s, want %v", got, tt.want)
			}
		})
	}
}

func TestRun(t *testing.T) {
	p := optimize.Synthetic(10, 60, 1)
	elapsed := time.Duration(0)
	clock := func() time.Duration { elapsed += time.Second; return elapsed }
	for _, name := range Algorithms() {
		r, err := Run(p, Algorithm(name), Options{Options: optimize.Options{Alpha: optimize.DefaultAlpha}, For: 10 * time.Second}, clock)
		if err != nil {
			t.Fatal(err)
		}
		if r.Moves == 0 || r.Makespan <= 0 || r.RunTime < 1 || r.Nodes != 10 || r.Containers != 60 || len(r.PeakAfter) != 5 {
			t.Errorf("%s: %+v", name, r)
		}
		if name == "local" && r.Reduction < 0.8 {
			t.Errorf("local has reduced S by %v", r.Reduction)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Error(err)
		}
	}
	_, err := Run(p, "magic", Options{}, clock)
	if want := `algorithm "magic" is not known; known: [local genetic genetic-seeded spread binpack random]`; fmt.Sprint(err) != want {
		t.Errorf("%v; want %s", err, want)
	}
}

// The paper's mixes, as they are delivered, can be read and have something to place.
func TestDeliveredMixes(t *testing.T) {
	const dir = "../../../lab/c-balancer/"
	files, err := filepath.Glob(dir + "w*.yaml")
	if err != nil || len(files) != 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(filepath.Base(name), data, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) })
		if err != nil {
			t.Error(err)
			continue
		}
		if p, err := f.Problem(); err != nil || len(p.Nodes) == 0 || len(p.Containers) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
