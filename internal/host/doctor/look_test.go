// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"strings"
	"testing"

	"weir/internal/core/bound"
)

// TestRunIsBounded: what a program prints is kept up to a bound, behind which its output counts as
// not read; of its errors the first line is told.
func TestRunIsBounded(t *testing.T) {
	out, err := run(t.Context(), "head", "-c", "40M", "/dev/zero")
	if len(out) != bound.Rules || err == nil || !strings.Contains(err.Error(), "output of head: 41943040 bytes, 33554432 are the most") {
		t.Errorf("%d bytes: %v", len(out), err)
	}
	if out, err = run(t.Context(), "sh", "-c", "echo rule; echo no such table >&2; echo and more >&2; exit 3"); string(out) != "rule\n" || err == nil || !strings.HasPrefix(err.Error(), "sh: exit status 3: no such table") || strings.Contains(err.Error(), "more") {
		t.Errorf("%q: %v", out, err)
	}
}
