// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/base/strictyaml"
	"weir/internal/cluster/optimize"
)

// Series is several clusters, each launched several times, and what an algorithm has to
// make of them on average, in YAML:
//
//	name: the mixes
//	clusters: [w01.yaml, w02.yaml]
//	launches: 20
//	expect: [{algorithm: local, moves_of: genetic, s_reduction: 61%}]
type Series struct {
	Name     string      `yaml:"name"`
	Clusters []string    `yaml:"clusters"` // files, relative to this one
	Launches int         `yaml:"launches"` // of each cluster, with the seeds from 0 up
	Expect   []SeriesBar `yaml:"expect"`

	File    string             `yaml:"-"`
	Entries []strictyaml.Entry `yaml:"-"` // Expect as the file has it
}

// SeriesBar is a condition: the mean over the clusters of the part of S that the
// algorithm takes away is at least Reduction.
type SeriesBar struct {
	Algorithm Algorithm `yaml:"algorithm"`
	// MovesOf is another algorithm: Algorithm may make no more moves than that one has
	// made, launch by launch. "" = it may make as many as it likes.
	MovesOf   Algorithm `yaml:"moves_of"`
	Reduction string    `yaml:"s_reduction"` // such as 61%
}

// SeriesResult says what an algorithm made of the launches of one cluster, or of all
// clusters.
type SeriesResult struct {
	Cluster   string    `json:"cluster"` // "" = the mean over all
	Algorithm Algorithm `json:"algorithm"`
	MovesOf   Algorithm `json:"moves_of,omitempty"`
	Reduction float64   `json:"s_reduction"` // of the sum over the launches; of all clusters the mean
	Moves     float64   `json:"moves"`       // of a launch, the mean
	Holds     *bool     `json:"holds,omitempty"`
	Bar       float64   `json:"bar,omitempty"`
}

// IsSeries says whether a file is a Series and not a File.
func IsSeries(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "clusters:") {
			return true
		}
	}
	return false
}

// ParseSeries reads a Series; errors are as Parse's.
func ParseSeries(name string, data []byte) (*Series, error) {
	s := &Series{File: name, Entries: strictyaml.Entries(data, "expect")}
	if err := strictyaml.Read(name, data, s); err != nil {
		return nil, err
	}
	switch {
	case len(s.Clusters) == 0:
		return nil, fmt.Errorf("%s: clusters: names no file; write such as clusters: [w01.yaml]", name)
	case s.Launches < 1 || s.Launches > 1000:
		return nil, fmt.Errorf("%s: launches: %d; write 1 to 1000", name, s.Launches)
	case len(s.Expect) == 0:
		return nil, fmt.Errorf("%s: expect: missing; write such as expect: [{algorithm: local, s_reduction: 61%%}]", name)
	}
	for i, e := range s.Expect {
		where := fmt.Sprintf("%s: expect[%d]", name, i+1)
		for _, a := range []Algorithm{e.Algorithm, e.MovesOf} {
			if !slices.Contains(Algorithms(), string(a)) && !(a == "" && a == e.MovesOf && e.Algorithm != "") {
				return nil, fmt.Errorf("%s: algorithm %q; write one of %s", where, a, strings.Join(Algorithms(), ", "))
			}
		}
		if _, err := e.bar(); err != nil {
			return nil, fmt.Errorf("%s.s_reduction: %q; write such as 61%%", where, e.Reduction)
		}
	}
	return s, nil
}

// bar returns the least mean reduction, a share.
func (b SeriesBar) bar() (float64, error) {
	text, percent := strings.CutSuffix(b.Reduction, "%")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !percent || v < 0 || v > 100 {
		return 0, strconv.ErrSyntax
	}
	return v / 100, nil
}

// RunSeries runs the algorithms of all conditions. name is the series' file, read reads
// the clusters' beside it.
func RunSeries(name string, s *Series, read func(string) ([]byte, error)) ([]SeriesResult, error) {
	var list []SeriesResult
	for _, b := range s.Expect {
		most, err := b.bar()
		if err != nil {
			return nil, err
		}
		mean := SeriesResult{Algorithm: b.Algorithm, MovesOf: b.MovesOf, Bar: most}
		for _, cluster := range s.Clusters {
			file := path.Join(path.Dir(name), cluster)
			data, err := read(file)
			if err != nil {
				return nil, fmt.Errorf("%s: clusters: %w", name, err)
			}
			f, err := Parse(file, data, read)
			if err != nil {
				return nil, err
			}
			r, err := b.launch(f, s.Launches)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			r.Cluster = f.Name
			if r.Cluster == "" {
				r.Cluster = cluster
			}
			list = append(list, r)
			mean.Reduction += r.Reduction / float64(len(s.Clusters))
			mean.Moves += r.Moves / float64(len(s.Clusters))
		}
		holds := mean.Reduction >= most
		mean.Holds = &holds
		list = append(list, mean)
	}
	return list, nil
}

// launch has the condition's algorithm plan for a cluster's launches.
func (b SeriesBar) launch(f *File, launches int) (SeriesResult, error) {
	r := SeriesResult{Algorithm: b.Algorithm, MovesOf: b.MovesOf}
	var before, after float64
	for seed := range uint64(launches) {
		launched := *f
		launched.Seed = seed
		p, err := launched.Problem()
		if err != nil {
			return r, err
		}
		o := Options{Options: optimize.Options{Alpha: optimize.DefaultAlpha, Seed: seed}}
		stopped := func() time.Duration { return 0 }
		x := Result{}
		if b.MovesOf != "" {
			other, err := Run(p, b.MovesOf, o, stopped)
			if err != nil {
				return r, err
			}
			if o.MaxMoves = other.Moves; other.Moves == 0 {
				x = other // nor may this one move anything
			}
		}
		if b.MovesOf == "" || o.MaxMoves > 0 {
			if x, err = Run(p, b.Algorithm, o, stopped); err != nil {
				return r, err
			}
		}
		before, after = before+x.SBefore, after+x.SAfter
		r.Moves += float64(x.Moves) / float64(launches)
	}
	if before > 0 {
		r.Reduction = 1 - after/before
	}
	return r, nil
}
