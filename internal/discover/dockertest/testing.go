// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
)

// TB is the part of a test that ForTest and MustRun use. It is not testing.TB so that a
// program that demonstrates something does not link package testing.
type TB interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Skip(args ...any)
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// ForTest starts an engine that ends with the test. It skips the test, with the
// reason, where no engine can be started.
func ForTest(t TB) *Engine {
	t.Helper()
	e, err := Start(context.Background(), "")
	if errors.Is(err, ErrNotPossible) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Errorf("stop the private Docker engine: %v", err)
		}
	})
	return e
}

// MustRun runs a container as Run does, and fails the test on an error.
func (e *Engine) MustRun(t TB, c Container) (id string) {
	t.Helper()
	id, err := e.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// State returns the containers, volumes and images of the engine as text, for tests that
// compare.
func (e *Engine) State(t TB) string {
	t.Helper()
	var lines []string
	containers, err := e.Client().ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		lines = append(lines, "container "+c.ID+" "+strings.Join(c.Names, " ")+" "+c.State)
	}
	volumes, err := e.Client().VolumeList(t.Context(), volume.ListOptions{Filters: filters.Args{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Volumes {
		lines = append(lines, fmt.Sprint("volume ", v.Name, " ", slices.Sorted(maps.Keys(v.Labels))))
	}
	images, err := e.Client().ImageList(t.Context(), image.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		lines = append(lines, fmt.Sprint("image ", i.ID, " ", i.RepoTags))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
