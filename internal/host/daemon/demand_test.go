// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/host/agent"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/bpf"
)

// TestDemandedBackend: an agent that must use the BPF qdisc does not begin where the
// kernel has none, whether the flag or the file demands it.
func TestDemandedBackend(t *testing.T) {
	had := bpf.Supported
	t.Cleanup(func() { bpf.Supported = had })
	bpf.Supported = func() error { return fmt.Errorf("%w: it has no such qdiscs", dataplane.ErrNoSupport) }
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("links: [{device: nosuch0, egress: 50mbit}]\nbackend: bpf\ndocker: {enabled: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	docker := false
	for name, begin := range map[string]func() (*agent.Agent, error){
		"file": func() (*agent.Agent, error) { return FromConfig(file, Overrides{}, slog.New(slog.DiscardHandler)) },
		"flag": func() (*agent.Agent, error) {
			return FromConfig("", Overrides{Links: []LinkOverride{{Device: "nosuch0", Egress: "50mbit"}}, Backend: "bpf", Docker: &docker, StateDir: t.TempDir()}, slog.New(slog.DiscardHandler))
		},
	} {
		_, err := begin()
		if !errors.Is(err, dataplane.ErrNoSupport) || !strings.Contains(err.Error(), "choose the backend auto or tc") {
			t.Errorf("%s: %v; want that the kernel has no such qdiscs, and the remedy", name, err)
		}
	}
	if _, err := FromConfig(file, Overrides{Backend: "auto"}, slog.New(slog.DiscardHandler)); err != nil {
		t.Errorf("with --backend auto: %v", err)
	}
}
