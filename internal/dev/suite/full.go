// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// full is all that make test-full runs.
type full struct {
	packages []string // of go list
	machines machines
	runs     []byte // what internal/dev/papers prints of the runs that its pages need
	seed     uint32 // of the random policies
	fuzzTime string // for each target, a Go duration
}

// steps returns them all, in the order in which they run. The error names what no step
// covers.
func (f full) steps() ([]step, error) {
	long, err := longFolders()
	if err != nil {
		return nil, err
	}
	fuzz, err := f.fuzz()
	if err != nil {
		return nil, err
	}
	scenarios, err := f.scenarios()
	if err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(f.packages), func(p string) bool {
		_, has := long[strings.TrimPrefix(p, "weir/")]
		return has
	})
	return slices.Concat(
		append(native("native", rest, nil), coverage),
		longTests(long),
		native("race", f.packages, raced),
		fuzz,
		f.machines.all(),
		scenarios,
		f.random(),
		managers(),
		[]step{{Name: "upgrade", Command: []string{"scripts/test-upgrade"}},
			{Name: "units", Command: []string{"scripts/test-units"}, Alone: true},
			{Name: "packages", Command: []string{"scripts/test-packages"}, Alone: true},
			{Name: "browser", Command: []string{"scripts/browser"}, Alone: true},
			{Name: "kubernetes", Command: []string{"scripts/demo-kubernetes"}, Alone: true},
			{Name: "kubernetes-control", Command: []string{"scripts/test-kubernetes"}},
			{Name: "kubernetes-scale", Command: []string{"scripts/test-kubernetes-scale"}, Alone: true},
			{Name: "kubernetes-node", Command: []string{"scripts/test-kubernetes-node"}, Alone: true},
			{Name: "monitoring", Command: []string{"scripts/test-monitoring"}, Alone: true}},
	), nil
}

var coverage = step{Name: "native/coverage", Command: []string{"scripts/coverage"}}

// managers returns the tests beside the programs that manage a host's network, on both kernels.
func managers() (steps []step) {
	for _, kernel := range kernels {
		steps = append(steps, step{Name: "managers-" + kernel, Command: []string{"scripts/test-managers", "--kernel", kernel}})
	}
	return steps
}

// random returns the steps with policies drawn at random, for one link, for trees of groups and
// for zones, on both kernels.
func (f full) random() []step {
	seed := fmt.Sprint(f.seed)
	var steps []step
	for _, kernel := range kernels {
		for _, mix := range []string{"policies", "groups", "zones"} {
			args := []string{"random", "--seed", seed, "--count", "20"}
			if mix != "policies" {
				args = append(args, "--"+mix)
			}
			one := on(kernel, f.machines.weir("random/"+mix+"-on-"+kernel, args...))
			one.Note = "seeds from " + seed + " on"
			steps = append(steps, one)
		}
	}
	return steps
}

var (
	longFlag  = regexp.MustCompile(`flag\.(Bool|Duration)\("long"`)
	longOther = regexp.MustCompile(`"weir/internal/cluster/bus/bustest"`)
	fuzzFunc  = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
)

// longFolders finds the packages whose tests have the flag -long, and what to say for it.
// Those that import bustest have its flag.
func longFolders() (map[string]string, error) {
	found := map[string]string{}
	err := eachTest(func(folder string, source []byte) {
		switch m := longFlag.FindSubmatch(source); {
		case m != nil && string(m[1]) == "Duration":
			found[folder] = "-long=10m"
		case m != nil, longOther.Match(source):
			found[folder] = "-long"
		}
	})
	return found, err
}

// fuzzGo runs the fuzz targets: until Go 1.27 a target may fail when its time is over, having found
// nothing (go.dev/issue/75804).
const fuzzGo = "GOTOOLCHAIN=go1.27.1"

// usualFuzz is how long a fuzz target runs if nothing else is asked for.
const usualFuzz = "1m"

// fuzz returns a step for each fuzz target, with one worker, so that what a target allocates and
// the memory of this machine are those of one. Another time than the usual one is in the steps'
// names, such as fuzz-10m/policy/FuzzChange: one that passed in a minute has not passed in ten.
func (f full) fuzz() (steps []step, err error) {
	kind := "fuzz/"
	if f.fuzzTime != usualFuzz {
		kind = "fuzz-" + f.fuzzTime + "/"
	}
	err = eachTest(func(folder string, source []byte) {
		for _, m := range fuzzFunc.FindAllSubmatch(source, -1) {
			target := string(m[1])
			pkg := strings.TrimPrefix(folder, "internal/")
			steps = append(steps, step{Name: kind + pkg + "/" + target, Env: []string{fuzzGo}, Inputs: inputs{tests: []string{pkg}},
				Command: []string{"go", "test", "-run", "^$", "-fuzz", "^" + target + "$", "-fuzztime", f.fuzzTime, "-fuzzminimizetime", "1s", "-parallel", "1", "./" + folder}})
		}
	})
	return steps, err
}

// eachTest hands over the source of every test, with its folder.
func eachTest(see func(folder string, source []byte)) error {
	return filepath.WalkDir("internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err == nil {
			see(filepath.Dir(path), source)
		}
		return err
	})
}

// elsewhere are scenario files that a step reads which does not name them, and data that
// scenarios read.
var elsewhere = map[string]string{
	"lab/cluster/vm.yaml":          "long/lab/cluster",
	"lab/cluster/vm-faults.yaml":   "long/lab/cluster",
	"lab/cluster/units.yaml":       "units",
	"lab/c-balancer/programs.yaml": "lab/c-balancer/w01",
	"lab/c-balancer/together.yaml": "native/quick", // its page is compared with it
}

// scenarios returns the steps of each file under lab/: the runs that a page shows, each
// file of bars, and all other files. The first two leave their figures in
// docs/papers/data and docs/bars.jsonl: after a whole run `make figures` makes the pages
// of them.
func (f full) scenarios() (steps []step, err error) {
	files, err := filepath.Glob("lab/*/*.yaml")
	if err != nil {
		return nil, err
	}
	wanted := f.wanted()
	for _, file := range files {
		if elsewhere[file] == "" {
			steps = append(steps, f.scenario(file, wanted[file])...)
		}
		delete(wanted, file)
	}
	for _, file := range sortedKeys(wanted) {
		return nil, fmt.Errorf("internal/dev/papers wants runs of %s, which is not there", file)
	}
	return steps, nil
}

// wanted returns the runs of each scenario file that a page shows, each as its name and
// its options: lines of "NAME FILE OPTION...".
func (f full) wanted() map[string][][]string {
	wanted := map[string][][]string{}
	for lines := bufio.NewScanner(bytes.NewReader(f.runs)); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 {
			wanted[fields[1]] = append(wanted[fields[1]], append([]string{"lab/" + fields[0]}, fields[2:]...))
		}
	}
	return wanted
}

func (f full) scenario(file string, runs [][]string) (steps []step) {
	name := strings.TrimSuffix(file, ".yaml")
	hosts := func(command ...string) []step {
		return []step{{Name: name, Command: command, Alone: true}}
	}
	folder := filepath.Dir(file)
	switch {
	case folder == "lab/cluster", file == "lab/c-balancer/downtime.yaml":
		return hosts("scripts/bars", file)
	case file == "lab/c-balancer/fig10b.yaml":
		return []step{{Name: name, Command: []string{"scripts/bars", file}}}
	case folder == "lab/c-balancer" && strings.HasPrefix(filepath.Base(file), "w"):
		return []step{{Name: name, Command: []string{"bin/weir", "simulate", "--algorithm", "local,genetic", file}}}
	case file == "lab/c-balancer/fig07.yaml": // of images that are made for it
		return hosts("bash", "-c", `for i in "busybox busybox-static" "redis redis-server" "toolchain gcc g++ clang golang-go"; do set -- $i; scripts/image "out/papers/images/$1.tar" "${@:2}" || exit; done; bin/weir lab cluster `+file)
	case folder == "lab/c-balancer":
		return hosts("bin/weir", "lab", "cluster", file)
	}
	// It measures the scheduler, in a machine.
	in := inputs{files: []string{file, "vm", "scripts/papers", "scripts/bars"}, paper: filepath.Base(folder)}
	// One run may be of the file as it is; docs/bars.md takes its bars from that, too.
	whole := slices.ContainsFunc(runs, func(run []string) bool { return run[0] == name })
	switch {
	case folder == "lab/bars" && !whole:
		steps = append(steps, step{Name: name, Command: []string{"scripts/bars", file}, Inputs: in})
	case len(runs) == 0:
		one := f.machines.lab(name, file)
		one.Inputs = in
		steps = append(steps, one)
	}
	for _, run := range runs {
		steps = append(steps, step{Name: run[0], Command: []string{"scripts/papers", "--run", strings.TrimPrefix(run[0], "lab/")}, Peer: isPeer(run[1:]), Inputs: in})
	}
	return steps
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
