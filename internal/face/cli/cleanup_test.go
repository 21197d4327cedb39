// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"weir/internal/api"
	"weir/internal/test/goldentest"
)

func TestRenderCleanup(t *testing.T) {
	goldentest.Check(t, "testdata/cleanup-nothing.golden", renderCleanup(api.ChangeResult{}))
}
