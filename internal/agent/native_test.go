// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/audit"
	"weir/internal/config"
	"weir/internal/dataplane/device/netnstest"
	"weir/internal/dataplane/tc"
	"weir/internal/logtest"
	"weir/internal/refusal"
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
	start := func() (a *Agent, stop func()) {
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
	result, err := a.Attach(t.Context(), api.AttachRequest{Name: "c1", Device: "agtv1", Policy: change("weight=3 min=20mbit")}, false)
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
	_, err = a.Set(t.Context(), "c1", change("min=200mbit"), false)
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

func TestFromConfigRefuses(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.yaml")
	for _, test := range []struct {
		name  string
		path  string
		flags Overrides
		words []string
	}{
		{"no file", none, Overrides{}, []string{none, "does not exist", "--link"}},
		{"no capacity", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}}, []string{"link.egress", "100mbit"}},
		{"bad capacity", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "100mbps"}, []string{"link.egress", `"100mbps"`, "800mbit"}},
		{"capacity of nothing", "", Overrides{Egress: "100mbit"}, []string{"link.device"}},
		{"bad device", "", Overrides{Links: []LinkOverride{{Device: "a/b"}}, Egress: "1mbit"}, []string{"link.device", `"a/b"`}},
		{"bad scheduler", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Scheduler: "fare"}, []string{"link.scheduler", `"fare"`, "fair, qcon, ancs"}},
		{"bad backend", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Backend: "ebpf"}, []string{"backend", `"ebpf"`, "auto, bpf or tc"}},
		{"bad address", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Metrics: "9469"}, []string{"metrics.listen", "host:port"}},
		{"metrics in clear on every address", "", Overrides{Links: []LinkOverride{{Device: "agtnone"}}, Egress: "1mbit", Metrics: ":9469"}, []string{"metrics.listen", "not on the loopback", "tls: {cert:"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := FromConfig(test.path, test.flags, slog.New(slog.DiscardHandler))
			if err == nil {
				t.Fatal("no error")
			}
			for _, word := range test.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

// TestOverrides: the command line counts over the file.
func TestOverrides(t *testing.T) {
	c := parse(t, "links: [{device: eth0, egress: 100mbit, reservable: 50%}, {device: eth1, egress: 1gbit}]")
	got, err := Overrides{Links: []LinkOverride{{Device: "eth0"}}, Scheduler: "qcon", Force: true, Docker: new(false), StateDir: "/x", Socket: "/y", Backend: "tc", Metrics: "[::1]:1"}.over(c)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Link{Device: "eth0", Egress: 100e6, Reservable: 0.5, Scheduler: "qcon", Force: true}
	if len(got.Links) != 1 || got.Links[0] != want || got.Docker.Enabled || got.StateDir != "/x" || got.Socket != "/y" || got.Backend != "tc" || got.Metrics.Listen != "[::1]:1" {
		t.Errorf("got %+v", got)
	}
	several, err := Overrides{Links: []LinkOverride{{"eth1", ""}, {"eth2", ""}, {"eth0", "5mbit"}}, Egress: "50mbit"}.over(c)
	if err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, l := range several.Links {
		links = append(links, fmt.Sprint(l.Device, " ", l.Egress, " ", l.Reservable))
	}
	if got, want := strings.Join(links, ", "), "eth1 50 Mbit/s 1, eth2 50 Mbit/s 1, eth0 5 Mbit/s 0.5"; got != want {
		t.Errorf("links %s, want %s", got, want)
	}
	if same, err := (Overrides{}).over(c); err != nil || len(same.Links) != 2 {
		t.Errorf("no overrides: %+v, %v", same, err)
	}
	if _, err := (Overrides{Force: true}).over(c); err == nil || errors.Is(err, ErrNoLink) {
		t.Errorf("--force without --link: %v", err)
	}
}
