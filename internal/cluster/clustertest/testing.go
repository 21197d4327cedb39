// SPDX-License-Identifier: Apache-2.0

package clustertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"weir/internal/test/dockertest"
)

// ForTest starts a cluster that ends with the test, with CounterImage on its first
// node. It skips the test, with the reason, where none can be started.
func ForTest(t dockertest.TB, o Options) *Cluster {
	t.Helper()
	c, err := Start(context.Background(), o)
	if errors.Is(err, ErrNotPossible) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	program, err := c.BuildCounter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.nodes[0].ImportCounter(t.Context(), CounterImage, program, 0, `["/counter"]`); err != nil {
		t.Fatal(err)
	}
	return c
}

// BuildCounter compiles the counter. It needs Go and this module's source, or WEIR_COUNTER, the
// path of the counter as it was compiled elsewhere.
func (c *Cluster) BuildCounter(ctx context.Context) (program string, err error) {
	if program = os.Getenv("WEIR_COUNTER"); program != "" {
		return program, nil
	}
	program = filepath.Join(c.Dir, "counter")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "weir/internal/cluster/clustertest/counter/cmd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return program, nil
}
