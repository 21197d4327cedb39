// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The S bar of the C-Balancer paper's mixes: with no more moves than the paper's
// algorithm makes, the local search takes away at least 61 % of S. The delivered file
// has twenty launches of each mix, which take half a minute; three are a telling part.
func TestSOfThePapersMixes(t *testing.T) {
	const file = "../../../lab/c-balancer/fig10b.yaml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSeries(file, data)
	if err != nil {
		t.Fatal(err)
	}
	if s.Launches, s.Expect = 3, s.Expect[:1]; s.Expect[0].MovesOf != Genetic || s.Expect[0].Reduction != "61%" || len(s.Clusters) != 10 {
		t.Fatalf("the bar of %s has become another one: %+v", file, s)
	}
	results, err := RunSeries(file, s, func(name string) ([]byte, error) { return os.ReadFile(filepath.FromSlash(name)) })
	if err != nil {
		t.Fatal(err)
	}
	mean := results[len(results)-1]
	if mean.Cluster != "" || !*mean.Holds {
		t.Errorf("S is reduced by %.1f %% with %.1f moves, which has to be at least %.0f %%", mean.Reduction*100, mean.Moves, mean.Bar*100)
	}
}

func TestABadSeriesIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"clusters: []\nlaunches: 1", "clusters: names no file"},
		{"clusters: [a.yaml]", "launches: 0"},
		{"clusters: [a.yaml]\nlaunches: 1", "expect: missing"},
		{"clusters: [a.yaml]\nlaunches: 1\nexpect: [{algorithm: locl, s_reduction: 61%}]", `expect[1]: algorithm "locl"`},
		{"clusters: [a.yaml]\nlaunches: 1\nexpect: [{s_reduction: 61%}]", `expect[1]: algorithm ""`},
		{"clusters: [a.yaml]\nlaunches: 1\nexpect: [{algorithm: local, moves_of: g, s_reduction: 61%}]", `expect[1]: algorithm "g"`},
		{"clusters: [a.yaml]\nlaunches: 1\nexpect: [{algorithm: local, s_reduction: 0.61}]", "expect[1].s_reduction"},
		{"clusters: [a.yaml]\nlaunches: 1\nexpect: [{algorithm: local, reduction: 61%}]", `unknown field "reduction"`},
	} {
		if !IsSeries([]byte(c.text)) {
			t.Errorf("%q is not taken for a series", c.text)
		}
		if _, err := ParseSeries("x.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "x.yaml: ") {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// A series whose bar is higher than what the algorithm reaches does not hold.
func TestASeriesCanFail(t *testing.T) {
	files := map[string]string{"a.yaml": "nodes: [{name: n, count: 2, cpu_cores: 4, memory_bytes: 4000000000}]\nprograms: {busy: {cpu_cores: 1, memory_bytes: 1000}}\n" +
		"containers: [{program: busy, count: 2, node: n1}]\n"}
	for _, c := range []struct {
		bar   SeriesBar
		holds bool
	}{
		{SeriesBar{Algorithm: Local, Reduction: "90%"}, true},
		{SeriesBar{Algorithm: "spread", Reduction: "100%"}, true},
		{SeriesBar{Algorithm: "binpack", Reduction: "1%"}, false}, // it leaves both where they are
	} {
		s := &Series{Clusters: []string{"a.yaml"}, Launches: 2, Expect: []SeriesBar{c.bar}}
		results, err := RunSeries("x.yaml", s, func(name string) ([]byte, error) { return []byte(files[name]), nil })
		if err != nil || len(results) != 2 || *results[1].Holds != c.holds {
			t.Errorf("%+v: %+v, %v", c.bar, results, err)
		}
	}
}
