// SPDX-License-Identifier: Apache-2.0

package dockertest

import (
	"context"
	"errors"
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
