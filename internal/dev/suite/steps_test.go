// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func fullSteps(t *testing.T, runs string) []step {
	t.Helper()
	t.Chdir("../../..")
	packages := []string{"weir/internal", "weir/internal/host/agent"}
	for _, name := range slices.Concat(lasting, measuring) {
		if _, err := os.Stat("internal/" + name); err == nil {
			name = "internal/" + name
		} else if _, err := os.Stat(name); err != nil {
			t.Errorf("%s is no package", name)
		}
		packages = append(packages, "weir/"+name)
	}
	f := full{packages: packages, machines: machines{folder: "out/x", timeout: 1}, runs: []byte(runs), seed: 4711, fuzzTime: usualFuzz}
	steps, err := f.steps()
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestFullIsFull: each scenario file, fuzz target and package is in a step.
func TestFullIsFull(t *testing.T) {
	runs := "qcon/fig07-fair lab/qcon/fig07.yaml --scheduler fair\nqcon/fig07-htb lab/qcon/fig07.yaml --scheduler htb --cpu\nbars/cpu-fair lab/bars/cpu.yaml --scheduler fair\ncps/timing lab/cps/timing.yaml\nbars/llq lab/bars/llq.yaml\n"
	steps := fullSteps(t, runs)
	commands := map[string]string{}
	for _, s := range steps {
		if commands[s.Name] != "" {
			t.Errorf("two steps are called %s", s.Name)
		}
		commands[s.Name] = strings.Join(s.Command, " ")
	}
	measured := map[string]bool{} // files that scripts/papers --run measures
	for line := range strings.Lines(runs) {
		fields := strings.Fields(line)
		measured[fields[1]] = commands["lab/"+fields[0]] != ""
	}
	all := strings.Join(slices.Collect(func(yield func(string) bool) {
		for _, c := range commands {
			if !yield(c + " ") {
				return
			}
		}
	}), "\n")
	files, err := filepath.Glob("lab/*/*.yaml")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d scenario files, %v", len(files), err)
	}
	for _, file := range files {
		by, other := elsewhere[file]
		if other && commands[by] == "" {
			t.Errorf("%s is left to step %s, which is not there", file, by)
		}
		if !other && !measured[file] && !strings.Contains(all, file+" ") {
			t.Errorf("no step runs %s", file)
		}
	}
	for name, words := range map[string]string{
		"lab/qcon/fig07-fair":            "scripts/papers --run qcon/fig07-fair",
		"lab/qcon/fig07-htb":             "scripts/papers --run qcon/fig07-htb",
		"lab/bars/cpu-fair":              "scripts/papers --run bars/cpu-fair",
		"lab/cps/timing":                 "scripts/papers --run cps/timing",
		"lab/bars/cpu":                   "scripts/bars lab/bars/cpu.yaml",
		"lab/c-balancer/fig10b":          "scripts/bars lab/c-balancer/fig10b.yaml",
		"lab/bars/llq":                   "scripts/papers --run bars/llq",
		"lab/bars/cost":                  "scripts/bars lab/bars/cost.yaml",
		"vm/test/e2e-7.3":                "-backend bpf -long",
		"vm/documented-7.3":              "--copy docs --copy README.md -- ./test-e2e.test",
		"vm/test/e2e-6.18":               "--kernel 6.18",
		"vm/cluster/migrate/podman-7.3":  "--real-time --image podman",
		"long/cluster/sim":               "-long=10m",
		"long/cluster/node":              "./internal/cluster/node -long",
		"long/cluster/bus/natsserver":    "-long",
		"race/quick":                     "go test -race -count=1 -json",
		"race/test/e2e":                  "-race",
		"random/groups-on-7.3":           "--seed 4711 --count 20 --groups",
		"vm/drivers-6.18":                "--flavour full --virtual-time --kernel 6.18",
		"random/zones-on-6.18":           "--kernel 6.18 --virtual-time -- weir lab random --backend bpf --seed 4711 --count 20 --zones",
		"fuzz/core/policy/FuzzParseRate": "-fuzz ^FuzzParseRate$",
		"units":                          "scripts/test-units",
		"managers-6.18":                  "scripts/test-managers --kernel 6.18",
		"browser":                        "scripts/browser",
		"packages":                       "scripts/test-packages",
		"kubernetes":                     "scripts/demo-kubernetes",
		"kubernetes-control":             "scripts/test-kubernetes",
		"kubernetes-scale":               "scripts/test-kubernetes-scale",
		"kubernetes-node":                "scripts/test-kubernetes-node",
		"lab/cluster/demo":               "scripts/bars lab/cluster/demo.yaml",
		"lab/c-balancer/w01":             "bin/weir simulate",
		"vm/host/dataplane/tc-7.3":       "tc.test",
		"native/coverage":                "scripts/coverage",
		"lab/demo/shares":                "weir lab run",
		"lab/demo/shares-on-6.18":        "--kernel 6.18",

		"arm64/host/dataplane/bpf-6.18": "--arch arm64 --virtual-time --kernel 6.18 --copy out/x/bin/arm64/host-dataplane-bpf.test -- ./host-dataplane-bpf.test",
		"arm64/host/dataplane/ifb-7.3":  "--arch arm64",
		"arm64/host/dataplane/mark-7.3": "--arch arm64",
		"arm64/test/e2e-6.18":           "-backend bpf -test.run",
		"arm64/lab/qcon/fig11-on-6.18":  "--scheduler fair,qcon lab/qcon/fig11.yaml",
		"arm64/lab/demo/shares-on-7.3":  "--kernel 7.3",
	} {
		if !strings.Contains(commands[name], words) {
			t.Errorf("step %s: %q lacks %q", name, commands[name], words)
		}
	}
}

// TestPagesNeedFilesThatAreThere: a run that a page wants of a file that is gone is no
// silent nothing.
func TestPagesNeedFilesThatAreThere(t *testing.T) {
	t.Chdir("../../..")
	if steps, err := (full{runs: []byte("qcon/fig99-fair lab/qcon/fig99.yaml\n")}).scenarios(); err == nil || !strings.Contains(err.Error(), "lab/qcon/fig99.yaml") {
		t.Errorf("%d steps, %v", len(steps), err)
	}
}

// TestCIDemandsBPF: whatever CI runs in a machine on Weir's own qdisc says so, and no name
// is there twice.
func TestCIDemandsBPF(t *testing.T) {
	names := map[string]bool{}
	for _, s := range (machines{folder: "out/x", timeout: 1}).ci() {
		if names[s.Name] {
			t.Errorf("two steps are called %s", s.Name)
		}
		names[s.Name] = true
		command := strings.Join(s.Command, " ")
		if (s.Place == "" || s.Binary == "weir/internal/test/e2e" || s.Binary == "weir/internal/host/sdn") && !strings.Contains(command, "-backend bpf") {
			t.Errorf("%s does not demand the BPF qdisc: %s", s.Name, command)
		}
	}
}

func TestChoose(t *testing.T) {
	steps := []step{{Name: "vm/test/e2e-7.3"}, {Name: "vm/test/e2e-6.18"}, {Name: "fuzz/a/FuzzX"}, {Name: "units"}}
	for _, tt := range []struct{ names, want string }{
		{"", "vm/test/e2e-7.3 vm/test/e2e-6.18 fuzz/a/FuzzX units"},
		{"units vm/test/e2e-7.3", "vm/test/e2e-7.3 units"},
		{"vm", "vm/test/e2e-7.3 vm/test/e2e-6.18"},
		{"vm/test/*-6.18 fuzz", "vm/test/e2e-6.18 fuzz/a/FuzzX"},
		{"vm lab", "ERROR"},
	} {
		chosen, err := choose(steps, strings.Fields(tt.names))
		var got []string
		for _, s := range chosen {
			got = append(got, s.Name)
		}
		if err != nil {
			got = []string{"ERROR"}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%q: %v, %v; want %s", tt.names, got, err, tt.want)
		}
	}
}

// TestFuzzTimesAreApart: a run of ten minutes is another step than one of a minute.
func TestFuzzTimesAreApart(t *testing.T) {
	t.Chdir("../../..")
	for time, want := range map[string]string{usualFuzz: "fuzz/core/policy/FuzzChange", "10m": "fuzz-10m/core/policy/FuzzChange"} {
		steps, err := full{fuzzTime: time}.fuzz()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(steps, func(s step) bool {
			return s.Name == want && slices.Contains(s.Command, time) && slices.Contains(s.Command, "-parallel")
		}) {
			t.Errorf("no step %s", want)
		}
	}
}
