// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/base/audit"
	"weir/internal/core/refusal"
	"weir/internal/host/agent"
	"weir/internal/host/dataplane/device/netnstest"
	"weir/internal/host/dataplane/tc"
	"weir/internal/test/logtest"
)

func command(t *testing.T, line string) string {
	t.Helper()
	words := strings.Fields(line)
	out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

// TestNative runs the agent as "weir agent" does, on a real kernel with the tc
// backend: a device is attached, the policy changes, the agent goes and comes.
func TestNative(t *testing.T) {
	// Threads that Go starts inherit the namespace of the thread that starts them,
	// and any may do so; a process of its own is in the namespace as a whole.
	if os.Getenv("WEIR_AGENT_NATIVE") == "" {
		if err := tc.Supported(); err != nil {
			t.Skipf("skipped: %v", err)
		}
		run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNative$", "-test.v")
		netnstest.Alone(t, run)
		run.Env = append(os.Environ(), "WEIR_AGENT_NATIVE=1")
		out, err := run.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	command(t, "ip link add agtup type veth peer name agtpeer")
	command(t, "ip link add agtv1 type veth peer name agtc1")
	for _, device := range []string{"agtup", "agtpeer", "agtv1", "agtc1"} {
		command(t, "ip link set "+device+" up")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write("links: [{device: agtup, egress: 100mbit}]\ndocker: {enabled: false}\nbackend: tc\nstate_dir: " + dir + "\n")
	log := &logtest.Buffer{}
	start := func() (a *agent.Agent, stop func()) {
		t.Helper()
		a, err := FromConfig(file, Overrides{}, slog.New(slog.NewTextHandler(log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- a.Run(ctx) }()
		return a, func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("agent ended: %v", err)
			}
		}
	}

	a, stop := start()
	result, err := a.Attach(t.Context(), api.AttachRequest{Name: "c1", Device: "agtv1", Policy: apitest.Change("weight", "3", "min", "20mbit")}, false)
	if err != nil {
		t.Fatal(err)
	}
	if w := result.Workload; w.State != "active" || w.Devices[0] != "agtv1" {
		t.Errorf("workload %+v", w)
	}
	before := command(t, "tc class show dev agtup")
	if !strings.Contains(before, "htb 77e1:1 ") {
		t.Errorf("no class in %s", before)
	}
	for _, req := range []api.AttachRequest{{Name: "x", Device: "agtnone"}, {Name: "x", Netns: "agtnone"}} {
		_, err := a.Attach(t.Context(), req, false)
		refused(t, err, refusal.Invalid, "agtnone", "does not exist")
	}
	_, err = a.Set(t.Context(), "c1", apitest.Change("min", "200mbit"), false)
	refused(t, err, refusal.NoRoom, "asked 200 Mbit/s")

	write("links: [{device: agtup, egress: 100mbit}]\nworkloads: {c1: {max: 50mbit}}\nbackend: tc\nstate_dir: " + dir + "\n")
	eventually(t, "the new file is in force", func() bool {
		w, err := a.Workload(t.Context(), "c1")
		return err == nil && w.Links[0].MaxBps == 50e6
	})
	write("links: [{device: agtup, egress: 100mbps}]\n")
	eventually(t, "the bad file is reported", func() bool {
		s, err := a.Status(t.Context())
		return err == nil && strings.Contains(s.ConfigError, file+":1:33: links[0].egress")
	})
	stop()

	write("links: [{device: agtup, egress: 100mbit}]\nworkloads: {c1: {max: 50mbit}}\nbackend: tc\ndocker: {enabled: false}\nstate_dir: " + dir + "\n")
	// The rates move with who is active; what must not is what there is.
	inForce := func() string {
		classes := regexp.MustCompile(`class htb \S+|ceil \S+`).FindAllString(command(t, "tc class show dev agtup"), -1)
		return strings.Join(classes, "\n") + "\n" + command(t, "tc filter show dev agtv1 ingress")
	}
	before = inForce()
	a, stop = start()
	w, err := a.Workload(t.Context(), "c1")
	if err != nil || w.Policy.Min.Compact() != "20mbit" || w.Policy.Weight != 3 || w.Class != 1 {
		t.Errorf("after a restart: %+v, %v", w, err)
	}
	if after := inForce(); after != before {
		t.Errorf("a restart changed\n%sto\n%s", before, after)
	}
	if _, err := a.Detach(t.Context(), "c1", false); err != nil {
		t.Error(err)
	}
	eventually(t, "no class is left", func() bool {
		return !strings.Contains(command(t, "tc class show dev agtup"), "htb 77e1:1 ")
	})
	stop()
	write("links: [{device: agtup, egress: 100mbps}]\nstate_dir: " + dir + "\n")
	var warned logtest.Buffer
	if err := Cleanup(t.Context(), file, []string{"agtup"}, Overrides{}, audit.Who{Via: audit.ViaCommand}, slog.New(slog.NewTextHandler(&warned, nil))); err != nil {
		t.Error(err)
	}
	if said := warned.String(); !strings.Contains(said, file+":1:33: links[0].egress") || !strings.Contains(said, "state_dir="+dir) {
		t.Errorf("cleanup with a bad file says %s", said)
	}
	if out := command(t, "tc qdisc show dev agtup"); strings.Contains(out, "htb") {
		t.Errorf("cleanup left %s", out)
	}
	if t.Failed() {
		t.Log(log)
	}
}

// eventually waits for what another process or a timer brings about.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within 10 s: %s", what)
		case <-tick.C:
		}
	}
}

func refused(t *testing.T, err error, kind refusal.Kind, words ...string) {
	t.Helper()
	e := refusal.Of(err)
	if e == nil || e.Kind != kind {
		t.Fatalf("got %v, want kind %s", err, kind)
	}
	for _, word := range words {
		if said := e.Value + " " + e.Error(); !strings.Contains(said, word) { // as the command line prints it
			t.Errorf("%q does not say %q", said, word)
		}
	}
}
