// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"path/filepath"
	"testing"

	"weir/internal/test/goldentest"
)

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	goldentest.Check(t, filepath.Join("testdata", name), got)
}
