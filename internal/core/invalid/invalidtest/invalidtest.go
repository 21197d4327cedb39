// SPDX-License-Identifier: Apache-2.0

// Package invalidtest is for tests of what reads people's input.
package invalidtest

import (
	"errors"

	"weir/internal/core/invalid"
)

// Text returns an error's text, "" for none. That of an error which is no *invalid.Error says so.
func Text(err error) string {
	var e *invalid.Error
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &e):
		return "no *invalid.Error: " + err.Error()
	}
	return err.Error()
}
