// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"
	"testing"
)

// good returns a plan that nothing speaks against.
func good() Plan {
	f := Facts{
		Engine: "docker", EngineVersion: "20.10.24", Arch: "x86_64", Kernel: "6.18.44", CPUFlags: []string{"fpu", "avx2"},
		Runtime: "runc", StorageDriver: "overlay2", Cgroups: "1", CRIU: "4.2.1", Checkpoints: true, FreeBytes: 1 << 30,
	}
	return Plan{
		Order: MoveSpec{Move: "m", From: "a", To: "b", Approach: ApproachLayer, Container: Container{
			Name: "web", Running: true, MemoryBytes: 10 << 20, LayerBytes: 1 << 20, ImageBytes: 100 << 20, Layers: 3,
			Networks: []Network{{Name: "bridge", Driver: "bridge", IP: "172.17.0.2"}},
		}},
		Source: f, Target: f,
	}
}

func TestWhatThePreflightFinds(t *testing.T) {
	connected := func(p *Plan) {
		p.Order.Container.Connections = []Connection{{Local: "172.17.0.2:41000", Remote: "10.0.0.9:5432"}}
	}
	for _, c := range []struct {
		name   string
		change func(*Plan)
		want   string // codes of the refusals, with commas
	}{
		{"nothing", func(*Plan) {}, ""},
		{"not running", func(p *Plan) { p.Order.Container.Running = false }, "not-running"},
		{"paused", func(p *Plan) { p.Order.Container.Paused = true }, "paused"},
		{"the same node", func(p *Plan) { p.Order.To = "a" }, "same-node"},
		{"another architecture", func(p *Plan) { p.Target.Arch = "aarch64"; p.Target.CPUFlags = nil }, "architecture"},
		{"another engine", func(p *Plan) { p.Target.Engine = "podman" }, "engine"},
		{"another runtime", func(p *Plan) { p.Target.Runtime = "crun" }, "runtime"},
		{"a lesser CPU", func(p *Plan) { p.Target.CPUFlags = []string{"fpu"} }, "cpu"},
		{"a better CPU", func(p *Plan) { p.Target.CPUFlags = append(p.Target.CPUFlags, "avx512f") }, ""},
		{"no CRIU there", func(p *Plan) { p.Target.CRIU = "" }, "criu-missing"},
		{"CRIU too old here", func(p *Plan) { p.Source.CRIU = "4.1.1" }, "criu-old"},
		{"CRIU older there", func(p *Plan) { p.Source.CRIU, p.Target.CRIU = "4.10", "4.2.1" }, "criu-older"},
		{"CRIU and the kernel", func(p *Plan) { p.Target.CRIUTrouble = "no TCP repair" }, "criu-kernel"},
		{"no checkpoints", func(p *Plan) { p.Target.Checkpoints = false }, "experimental"},
		{"users mapped", func(p *Plan) { p.Source.UsernsRemap = true }, "userns-remap"},
		{"another storage driver", func(p *Plan) { p.Target.StorageDriver = "btrfs" }, "storage-driver"},
		{"another storage driver, by commit", func(p *Plan) {
			p.Target.StorageDriver, p.Order.Approach, p.Order.Registry = "btrfs", ApproachCommit, "r:5000"
		}, ""},
		{"commit without a registry", func(p *Plan) { p.Order.Approach = ApproachCommit }, "registry"},
		{"too many layers", func(p *Plan) {
			p.Order.Approach, p.Order.Registry, p.Order.Container.Layers = ApproachCommit, "r:5000", 110
		}, "layers"},
		{"podman's approach", func(p *Plan) { p.Order.Approach = ApproachBundle }, "approach"},
		{"no space there", func(p *Plan) { p.Target.FreeBytes = 100 << 20 }, "disk"},
		{"no space here", func(p *Plan) { p.Source.FreeBytes = 1 << 20 }, "disk"},
		{"connected behind NAT", connected, "tcp"},
		{"connected, to be closed", func(p *Plan) {
			connected(p)
			p.Order.CloseConnections, p.Target.TCP = true, "close"
		}, ""},
		{"connected, to be closed, which CRIU is not told", func(p *Plan) {
			connected(p)
			p.Order.CloseConnections = true
		}, "tcp-close"},
		{"connected, with an address that moves", func(p *Plan) {
			connected(p)
			p.Order.Container.Networks = []Network{{Name: "mv", Driver: "macvlan", Fixed: true}}
			p.Source.TCP, p.Target.TCP = "established", "established"
		}, ""},
		{"connected, with an address that moves, which CRIU is not told", func(p *Plan) {
			connected(p)
			p.Order.Container.Networks = []Network{{Name: "mv", Driver: "macvlan", Fixed: true}}
		}, "tcp-option"},
		{"bound to an address that stays", func(p *Plan) { p.Order.Container.Bound = []string{"tcp 172.17.0.2:80"} }, "bound"},
		{"bound to an address that moves", func(p *Plan) {
			p.Order.Container.Bound = []string{"tcp 10.0.0.5:80"}
			p.Order.Container.Networks = []Network{{Name: "mv", Driver: "macvlan", Fixed: true}}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := good()
			c.change(&p)
			p.Findings = examine(p)
			var codes []string
			for _, f := range p.Refusals() {
				codes = append(codes, f.Code)
				if f.Remedy == "" || strings.Contains(f.String(), "\n") {
					t.Errorf("%q has no remedy or is no line", f)
				}
			}
			if got := strings.Join(slices.Compact(codes), ","); got != c.want {
				t.Errorf("refused for %q, want %q: %v", got, c.want, p.Findings)
			}
			if (p.Err() != nil) != (c.want != "") {
				t.Errorf("error %v", p.Err())
			}
		})
	}
}

func TestVersionsAreNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"4.10", "4.2.1", true}, {"4.2.1", "4.10", false}, {"4.2", "4.2", false}, {"4.2.1", "4.2", true}, {"5", "4.9", true}} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("%s newer than %s: %v", c.a, c.b, got)
		}
	}
}

func TestTheFastestApproachThatIsPossible(t *testing.T) {
	p := good()
	if got := choose(p); got != ApproachLayer {
		t.Errorf("%s, want layer", got)
	}
	p.Target.StorageDriver = "btrfs"
	if got := choose(p); got != ApproachExport {
		t.Errorf("%s, want export without a registry", got)
	}
	p.Order.Registry = "r:5000"
	if got := choose(p); got != ApproachCommit {
		t.Errorf("%s, want commit", got)
	}
	p.Source.Engine = "podman"
	if got := choose(p); got != ApproachBundle {
		t.Errorf("%s, want archive", got)
	}
}
