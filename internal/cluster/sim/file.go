// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"weir/internal/base/strictyaml"
	"weir/internal/cluster/optimize"
	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// File is a cluster as a file describes it (docs/simulate.md), in YAML:
//
//	name: two kinds
//	nodes: [{name: n, count: 14, cpu_cores: 4, memory_bytes: 4294967296}]
//	programs: {busy: {cpu_cores: 1, memory_bytes: 40000000}}
//	containers: [{program: busy, count: 7}, {program: busy, node: n3}]
type File struct {
	Name string `yaml:"name"`
	Seed uint64 `yaml:"seed"`
	// Measure of S: load (default) or mean.
	Measure string `yaml:"measure"`
	// Launch says where containers without a node are at the beginning: spread
	// (default), binpack or random.
	Launch optimize.Strategy `yaml:"launch"`
	// Alpha of the fitness, DefaultAlpha if it is left out.
	Alpha *float64 `yaml:"alpha"`
	// Above leaves alone nodes that use at most this part of each resource, 0 = none.
	Above      float64                  `yaml:"above"`
	Nodes      []NodeGroup              `yaml:"nodes"`
	Import     string                   `yaml:"programs_file"` // another file's programs
	Programs   map[string]ProgramDemand `yaml:"programs"`
	Containers []ContainerGroup         `yaml:"containers"`
	// CountMoves lets all moves cost the same, as in the paper.
	CountMoves bool `yaml:"count_moves"`
}

// NodeGroup is count equal nodes: NAME, or NAME1, NAME2 and so on if there are more.
type NodeGroup struct {
	Name    string  `yaml:"name"`
	Count   int     `yaml:"count"` // 0 = 1
	CPU     float64 `yaml:"cpu_cores"`
	Memory  float64 `yaml:"memory_bytes"`
	BlockIO float64 `yaml:"block_io_bytes_per_second"` // 0 = not known, as for the next two
	Send    float64 `yaml:"network_transmit_bps"`
	Receive float64 `yaml:"network_receive_bps"`
	Promise uint64  `yaml:"guaranteed_bps"`
	Closed  bool    `yaml:"closed"`
}

// ProgramDemand describes what a container demands.
type ProgramDemand struct {
	CPU     float64 `yaml:"cpu_cores"`
	Memory  float64 `yaml:"memory_bytes"`
	BlockIO float64 `yaml:"block_io_bytes_per_second"`
	Send    float64 `yaml:"network_transmit_bps"`
	Receive float64 `yaml:"network_receive_bps"`
	Bytes   float64 `yaml:"move_bytes"` // that travel when it is moved
}

// ContainerGroup is count equal containers.
type ContainerGroup struct {
	Program string `yaml:"program"`
	Count   int    `yaml:"count"` // 0 = 1
	Name    string `yaml:"name"`  // default: the program's
	Node    string `yaml:"node"`  // where they are; "" = where Launch puts them
	Min     uint64 `yaml:"min_bps"`
	Pinned  bool   `yaml:"pinned"`
	Apart   string `yaml:"apart"` // anti-affinity group
}

// most is the largest number of nodes or containers that a file may ask for: what
// a machine of a few GB can hold.
const most = 1_000_000

// Parse reads a File. read reads a file that it names (programs_file), relative to
// its own folder; errors have one line with the file's name, and line and column
// where the YAML is wrong.
func Parse(name string, data []byte, read func(name string) ([]byte, error)) (*File, error) {
	f, err := decode(name, data)
	if err != nil || f.Import == "" {
		return f, err
	}
	other := path.Join(path.Dir(name), f.Import)
	text, err := read(other)
	if err != nil {
		return nil, fmt.Errorf("%s: programs_file %q: %w", name, f.Import, err)
	}
	imported, err := decode(other, text)
	if err != nil {
		return nil, err
	}
	for program, p := range imported.Programs {
		if _, own := f.Programs[program]; !own {
			if f.Programs == nil {
				f.Programs = map[string]ProgramDemand{}
			}
			f.Programs[program] = p
		}
	}
	return f, nil
}

func decode(name string, data []byte) (*File, error) {
	f := &File{}
	if err := strictyaml.Read(name, data, f); err != nil {
		return nil, err
	}
	return f, nil
}

// Problem returns the cluster that a file describes, with the containers where they
// are at the beginning.
func (f *File) Problem() (*optimize.Problem, error) {
	p := &optimize.Problem{Cost: optimize.DefaultCost}
	if f.CountMoves {
		p.Cost = optimize.MoveCost{}
	}
	switch f.Measure {
	case "", optimize.MeasureLoad.String():
	case optimize.MeasureMean.String():
		p.Measure = optimize.MeasureMean
	default:
		return nil, fmt.Errorf("measure %q is not known; write load or mean", f.Measure)
	}
	if !(f.Above >= 0 && f.Above <= 1) {
		return nil, fmt.Errorf("above %v is not between 0 and 1", f.Above)
	}
	index, err := f.nodes(p)
	if err != nil {
		return nil, err
	}
	placed, err := f.containers(p, index)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := f.launch(p, placed); err != nil {
		return nil, err
	}
	p.LeaveCalm(f.Above)
	return p, nil
}

func (f *File) nodes(p *optimize.Problem) (map[string]int, error) {
	index := map[string]int{}
	for _, g := range f.Nodes {
		if err := count("nodes", g.Name, g.Count, len(p.Nodes)); err != nil {
			return nil, err
		}
		for i := range max(g.Count, 1) {
			n := optimize.Node{Name: g.Name, Guaranteed: policy.Rate(g.Promise), Closed: g.Closed,
				Capacity: optimize.Vector{g.CPU, g.Memory, g.BlockIO, g.Send, g.Receive}}
			if g.Count > 1 {
				n.Name += fmt.Sprint(i + 1)
			}
			if _, taken := index[n.Name]; taken || n.Name == "" {
				return nil, fmt.Errorf("nodes: name %q is empty or taken; give each group another one", n.Name)
			}
			index[n.Name] = len(p.Nodes)
			p.Nodes = append(p.Nodes, n)
		}
	}
	if len(p.Nodes) == 0 {
		return nil, errors.New("nodes: there is none; write for example nodes: [{name: n, count: 3, cpu_cores: 4, memory_bytes: 8e9}]")
	}
	return index, nil
}

// containers appends them, and says of each whether the file has its node.
func (f *File) containers(p *optimize.Problem, index map[string]int) (placed []bool, err error) {
	for _, g := range f.Containers {
		if err := count("containers", g.Program, g.Count, len(p.Containers)); err != nil {
			return nil, err
		}
		program, known := f.Programs[g.Program]
		if !known {
			return nil, fmt.Errorf("containers: program %q is not among the programs", g.Program)
		}
		node, known := index[g.Node]
		if !known && g.Node != "" {
			return nil, fmt.Errorf("containers: node %q is not among the nodes", g.Node)
		}
		if g.Name == "" {
			g.Name = g.Program
		}
		for i := range max(g.Count, 1) {
			c := optimize.Container{Name: g.Name, Node: node, Min: policy.Rate(g.Min), Pinned: g.Pinned, Group: g.Apart, Bytes: program.Bytes,
				Demand: optimize.Vector{program.CPU, program.Memory, program.BlockIO, program.Send, program.Receive}}
			if g.Count > 1 {
				c.Name = fmt.Sprintf("%s-%d", g.Name, i+1)
			}
			p.Containers = append(p.Containers, c)
			placed = append(placed, g.Node != "")
		}
	}
	return placed, nil
}

func count(field, name string, n, have int) error {
	if n < 0 || n > most-have {
		return fmt.Errorf("%s: count %d of %q; give 1 to %d in all", field, n, name, most)
	}
	return nil
}

// launch puts the containers that have no node somewhere, in the order of the file.
func (f *File) launch(p *optimize.Problem, placed []bool) error {
	by := f.Launch
	switch by {
	case "":
		by = optimize.Spread
	case optimize.Spread, optimize.BinPack, optimize.Random:
	default:
		return fmt.Errorf("launch %q is not known; write spread, binpack or random", by)
	}
	q := *p
	q.Containers = append([]optimize.Container(nil), p.Containers...)
	for i := range q.Containers {
		q.Containers[i].Pinned = placed[i] // Launch leaves these
	}
	for c, n := range q.Launch(by, f.Seed) {
		p.Containers[c].Node = n
	}
	return nil
}

// Recorded returns the cluster that agents' profiles describe: one wire.Profile in
// JSON per line, as they came, of any number of nodes. name is for errors.
func Recorded(name string, data []byte) (*optimize.Problem, error) {
	var histories [][]wire.Profile
	index := map[string]int{}
	number := 0
	for line := range bytes.Lines(data) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		var p wire.Profile
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("%s:%d: not a profile in JSON: %w", name, number, err)
		}
		if err := p.Check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		i, known := index[p.Node]
		if !known {
			i = len(histories)
			index[p.Node], histories = i, append(histories, nil)
		}
		if h := histories[i]; len(h) > 0 && !p.Time.After(h[len(h)-1].Time) {
			continue // it came twice, or late
		}
		histories[i] = append(histories[i], p)
	}
	if len(histories) == 0 {
		return nil, fmt.Errorf("%s: there is no profile in it; it has one in JSON on each line", name)
	}
	p, _ := optimize.FromProfiles(histories)
	return p, p.Check()
}
