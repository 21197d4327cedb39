// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"slices"

	"weir/internal/cluster/move"
)

// passing lists the codes of findings that may be gone when a pre-flight is made
// again, though neither the container nor a node's settings have changed.
var passing = []string{"same-node", "paused", "not-running", "disk", "tcp", "tcp-close", "bound", "traced"}

// Lasting returns the code of the refusal in an error that stays until the container or a
// node is changed, "" if there is none.
func Lasting(err error) string {
	var found *PreflightError
	if errors.As(err, &found) {
		for _, f := range found.Findings {
			if f.Refuses && !slices.Contains(passing, f.Code) {
				return f.Code
			}
		}
	}
	var definite *move.Error
	if errors.As(err, &definite) && definite.Code == move.CodeNotAccepted {
		return string(definite.Code)
	}
	return ""
}
