// SPDX-License-Identifier: Apache-2.0

//go:build !amd64

package marktest

import "errors"

func setByCompat(_, _, _ int, _ int32) error {
	return errors.New("system calls of 32 bits are made on amd64 only")
}
