// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/core/plan"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/bpf"
	"weir/internal/lab/scenario"
)

// TestMain lets the test binary be the lab's child, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == ChildArg {
		os.Exit(Child(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// needLab skips where the lab cannot run, and says why.
func needLab(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs traffic for seconds: left out with -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("network namespaces and qdiscs need root")
	}
	for _, program := range []string{"tc", "iperf3", "ping"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// run runs a scenario's text and returns its JSON objects.
func run(t *testing.T, text string, o Options) (objects []map[string]any, exit int, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	o.Files, o.JSON, o.Stdout, o.Stderr = []string{file}, true, &out, &errs
	exit, err := Run(ctx, o)
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	d := json.NewDecoder(&out)
	for d.More() {
		var object map[string]any
		if err := d.Decode(&object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects, exit, errs.String()
}

func rate(t *testing.T, objects []map[string]any, phase int, workload string) float64 {
	t.Helper()
	for _, o := range objects {
		if o["workload"] == workload && o["phase"] == float64(phase) {
			return o["rate_bps"].(float64)
		}
	}
	t.Fatalf("no object for %s in phase %d", workload, phase)
	return 0
}

// HTB is exact, but its leaf here may be a FIFO, in which one TCP connection
// saws, and other programs take this machine's CPUs: hence 10 % of the link.
const tolerance = 2e6

func TestHTBShares(t *testing.T) {
	needLab(t)
	objects, exit, stderr := run(t, `
link: {bandwidth: 20mbit}
scheduler: htb
workloads:
  a: {weight: 1, traffic: [{tcp: {streams: 4}}]}
  b: {weight: 3, traffic: [{tcp: {streams: 4}}]}
  c: {traffic: [{ping: {}}]}
phases:
  - {for: 3s}
  - {for: 8s, set: {a: {min: 10mbit}}} # TCP takes its time to find the new share in a FIFO
  - {for: 3s, set: {b: {traffic: off}}}
expect:
  - {phase: 1, workload: a, rate: 15mbit, within: 1%}
`, Options{})
	for _, want := range []struct {
		phase    int
		workload string
		bps      float64
	}{{1, "a", 5e6}, {1, "b", 15e6}, {2, "a", 10e6}, {2, "b", 10e6}, {3, "a", 20e6}, {3, "b", 0}} {
		if got := rate(t, objects, want.phase, want.workload); math.Abs(got-want.bps) > tolerance {
			t.Errorf("phase %d: %s got %.1f Mbit/s, want %.0f", want.phase, want.workload, got/1e6, want.bps/1e6)
		}
	}
	if exit != ExitFailed || !strings.Contains(stderr, "phase 1, a: rate") {
		t.Errorf("a failed expectation: exit %d, %q", exit, stderr)
	}
	for _, o := range objects {
		if o["workload"] == "c" && o["rtt_ms"].(map[string]any)["p99"] == nil {
			t.Error("the ping was not measured")
		}
		if o["workload"] == "b" && o["phase"] == 1.0 {
			if got := o["goodput_bps"].(float64); math.Abs(got-15e6*1448/1514) > tolerance {
				t.Errorf("b's goodput is %.1f Mbit/s", got/1e6)
			}
		}
	}
}

// A FIFO knows no weights: the flood takes what it can. Wire bytes are counted
// as qdiscs do, offload or not.
func TestFIFOIsFloodedAndCountsWireBytes(t *testing.T) {
	needLab(t)
	for _, offload := range []string{"off", "on"} {
		t.Run("offload "+offload, func(t *testing.T) {
			objects, _, _ := run(t, fmt.Sprintf(`
link: {bandwidth: 20mbit, offload: %s}
scheduler: pfifo
workloads:
  tcp: {weight: 9, traffic: [{tcp: {}}]}
  flood: {traffic: [{udp: {rate: 60mbit, streams: 4}}]}
phases: [{for: 3s}]
`, offload), Options{})
			tcp, flood := rate(t, objects, 1, "tcp"), rate(t, objects, 1, "flood")
			if flood < 10e6 || tcp > 10e6 {
				t.Errorf("flood %.1f, TCP %.1f Mbit/s: the FIFO protected the TCP", flood/1e6, tcp/1e6)
			}
			if sum := tcp + flood; math.Abs(sum-20e6) > tolerance {
				t.Errorf("together %.1f Mbit/s on a link of 20", sum/1e6)
			}
		})
	}
}

// Nothing of a lab may outlive it, also if it is stopped in the middle.
func TestNothingIsLeft(t *testing.T) {
	needLab(t)
	file := filepath.Join(t.TempDir(), "long.yaml")
	text := "link: {bandwidth: 10mbit}\nscheduler: pfifo\nworkloads: {left: {traffic: [{tcp: {}}]}}\nphases: [{for: 1h}]\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var out bytes.Buffer
	_, err = Run(ctx, Options{Files: []string{file}, Stdout: &out, Stderr: &out})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("stopped run: %v %s", err, out.String())
	}
	after, err := os.ReadFile("/proc/self/mounts")
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("mounts changed: %v\n%s", err, after)
	}
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range children {
		if data, err := os.ReadFile(c); err == nil && len(bytes.TrimSpace(data)) > 0 {
			t.Errorf("processes are left: %s", data)
		}
	}
}

func TestBadOptionsAndFiles(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("link: {bandwith: 5mbit}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, want string
		o          Options
	}{
		{"no file", "no scenario file", Options{}},
		{"missing file", "no such file", Options{Files: []string{"nowhere.yaml"}}},
		{"bad file", `bad.yaml:1:8: link.bandwith: unknown key "bandwith"; did you mean "bandwidth"?`, Options{Files: []string{bad}}},
		{"folder without scenarios", "a folder without scenario files", Options{Files: []string{t.TempDir()}}},
		{"scheduler", `scheduler "wfq"`, Options{Files: []string{bad}, Scheduler: "fair,wfq"}},
		{"backend", `backend "xdp"`, Options{Files: []string{bad}, Backend: "xdp"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			exit, err := Run(context.Background(), tt.o)
			if exit != ExitInvalid || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("exit %d, %v; want %d and %q", exit, err, ExitInvalid, tt.want)
			}
		})
	}
}

func TestPrivilegeIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("runs as root, so nothing is refused")
	}
	err := inSandbox(context.Background(), partRun, request{}, nil, os.Stderr)
	if !errors.Is(err, dataplane.ErrPrivilege) || !strings.Contains(err.Error(), "sudo") {
		t.Errorf("got %v", err)
	}
}

// Every file that is delivered must be a valid scenario with the key figures in
// place.
func TestDeliveredScenarios(t *testing.T) {
	files, err := filepath.Glob("../../lab/*/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.Contains(file, "/cluster/") || strings.Contains(file, "/c-balancer/") {
			continue // of another format: internal/lab/cluster and internal/dev/balancer read them
		}
		t.Run(strings.TrimPrefix(file, "../../"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Parse(file, data)
			if err != nil {
				t.Fatal(err)
			}
			if (strings.Contains(file, "/qcon/") || strings.Contains(file, "/ancs/")) && s.Paper.Source == "" && !strings.Contains(file, "shaped") && !strings.Contains(file, "none") {
				t.Error("the paper's figures are missing")
			}
		})
	}
}

// What a workload behind a tap sends comes in by a device of the host's, and finds
// its class there; each of its traffic entries is counted.
func TestTapsAreMarkedAndFlowsCounted(t *testing.T) {
	needLab(t)
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("no taps here: %v", err)
	}
	objects, _, stderr := run(t, `
link: {bandwidth: 20mbit}
scheduler: htb
workloads:
  vm: {kind: tap, max: 5mbit, traffic: [{tcp: {streams: 2, port: 5001}}, {ping: {name: probe}}]}
  c: {traffic: [{tcp: {}}]}
phases: [{for: 4s}]
`, Options{})
	if got := rate(t, objects, 1, "vm"); math.Abs(got-5e6) > tolerance {
		t.Errorf("vm got %.1f Mbit/s, want its max of 5; %s", got/1e6, stderr)
	}
	for _, o := range objects {
		if o["workload"] != "vm" {
			continue
		}
		flows := o["flows"].([]any)
		if len(flows) != 2 {
			t.Fatalf("flows: %v", flows)
		}
		bulk, probe := flows[0].(map[string]any), flows[1].(map[string]any)
		if all, of := o["rate_bps"].(float64), bulk["rate_bps"].(float64); bulk["flow"] != "tcp:5001" || of < all*0.95 || of > all {
			t.Errorf("bulk: %v of %v", bulk, all)
		}
		if probe["flow"] != "probe" || probe["rate_bps"].(float64) < 10e3 || probe["rtt_ms"].(map[string]any)["p99"] == nil {
			t.Errorf("probe: %v", probe)
		}
	}
}

// TestDemandedBackend: where the kernel has no BPF qdiscs, --backend bpf runs nothing,
// with whatever scheduler, and says what to do.
func TestDemandedBackend(t *testing.T) {
	had := bpf.Supported
	t.Cleanup(func() { bpf.Supported = had })
	bpf.Supported = func() error { return fmt.Errorf("%w: it has no such qdiscs", dataplane.ErrNoSupport) }
	o := Options{Files: []string{"../../lab/demo/shares.yaml"}, Scheduler: "htb", Backend: plan.BackendBPF}
	for name, run := range map[string]func() (int, error){
		"run":    func() (int, error) { return Run(t.Context(), o) },
		"random": func() (int, error) { return RunRandom(t.Context(), o, 1, 1, "") },
	} {
		exit, err := run()
		want := "backend bpf: kernel cannot run this backend: it has no such qdiscs; boot such a kernel, or choose the backend auto or tc"
		if exit != ExitBroken || err == nil || err.Error() != want {
			t.Errorf("%s: exit %d, %v; want %d and %q", name, exit, err, ExitBroken, want)
		}
	}
}
