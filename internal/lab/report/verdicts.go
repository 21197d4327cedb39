// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"weir/internal/base/verdict"
)

// VerdictTable says which expectations do not hold, or that all do; "" if there
// are none.
func VerdictTable(list []verdict.Verdict) string {
	failures := verdict.Failures(list)
	switch {
	case len(failures) > 0:
		return "\nexpectations that do not hold:\n  " + strings.Join(failures, "\n  ") + "\n"
	case len(list) > 0:
		return fmt.Sprintf("\nall expectations hold (%d)\n", len(list))
	}
	return ""
}
