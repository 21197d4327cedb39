// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/face/cli"
	"weir/internal/lab/demo"
	"weir/internal/lab/labcli"
)

// The test's program is weir and weir-lab by their names, which are in PATH then. The demo
// runs weir-lab again by other names.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == demo.ChildArg {
		os.Exit(labcli.Main())
	}
	testscript.Main(m, map[string]func(){
		"weir":     func() { os.Exit(cli.Main()) },
		"weir-lab": func() { os.Exit(labcli.Main()) },
	})
}

// patience is for a busy machine; the demo itself takes 15 s.
const patience = 3 * time.Minute

func weirDemo(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("the demo makes network namespaces, which needs root")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, "weir", append([]string{"demo"}, args...)...)
}

func TestDemo(t *testing.T) {
	for name, flags := range map[string][]string{"namespaces": {"--no-docker"}, "containers": nil} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("dockerd"); err != nil && name == "containers" {
				t.Skip("dockerd is not installed")
			}
			dir := filepath.Join(t.TempDir(), "out")
			output, err := weirDemo(t, append(flags, "--phase", "4s", "--out", dir)...).CombinedOutput()
			t.Logf("%s", output)
			if err != nil {
				t.Error(err)
			}
			for _, want := range []string{
				"Phase 3 of 3", "$ weir set camera --min 30mbit", "$ weir explain camera", "Every promise was kept",
				"the private host is gone",
			} {
				if !bytes.Contains(output, []byte(want)) {
					t.Errorf("the demo does not say %q", want)
				}
			}
			if bytes.Contains(output, []byte("workloads  Docker containers")) != (name == "containers") {
				t.Errorf("the workloads are not %s", name)
			}
			checkPlots(t, dir)
		})
	}
}

func checkPlots(t *testing.T, dir string) {
	t.Helper()
	for pattern, begin := range map[string]string{"demo-*.svg": "<?xml", "demo-*.png": "\x89PNG"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		if len(found) != 1 {
			t.Errorf("%s: %d files, want 1", pattern, len(found))
			continue
		}
		content, err := os.ReadFile(found[0])
		if err != nil || !strings.HasPrefix(string(content), begin) {
			t.Errorf("%s begins with %.8q (%v)", found[0], content, err)
		}
	}
}

// awaitText keeps the text written to it, and closes seen once that holds text.
type awaitText struct {
	kept bytes.Buffer // not embedded: io.Copy would go past Write
	text string
	seen chan struct{}
}

func (a *awaitText) Write(p []byte) (int, error) {
	before := bytes.Contains(a.kept.Bytes(), []byte(a.text))
	a.kept.Write(p)
	if !before && bytes.Contains(a.kept.Bytes(), []byte(a.text)) {
		close(a.seen)
	}
	return len(p), nil
}

func TestInterruptLeavesNothing(t *testing.T) {
	cmd := weirDemo(t, "--no-docker", "--phase", "1m", "--out", t.TempDir())
	out := &awaitText{text: "1 s   camera", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("ended before it was interrupted: %v\n%s", err, out.kept.String())
	case <-out.seen:
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := <-ended
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("ended with %v, want exit status 1", err)
	}
	// Run looks for processes and mounts of the private host by itself.
	text := out.kept.String()
	for want, there := range map[string]bool{
		"up0 has its former qdisc": true, "weir: interrupted": true, "something is left": false, "weir: weir": false,
	} {
		if strings.Contains(text, want) != there {
			t.Errorf("%q in the output: %v, want %v\n%s", want, !there, there, text)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, phase := range []time.Duration{0, time.Second, -time.Hour, 2 * time.Hour} {
		err := demo.Run(t.Context(), demo.Options{Phase: phase})
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("--phase %q: ", phase.String())) {
			t.Errorf("phase %v: %v", phase, err)
		}
	}
}
