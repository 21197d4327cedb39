// SPDX-License-Identifier: Apache-2.0

// Package dump reads whole lists from the kernel while what is listed changes.
//
// The kernel answers a request for a list in parts and marks a list in whose middle something
// changed; the library returns that as nl.ErrDumpInterrupted. On a host whose containers come
// and go every list may be one of those.
package dump

import (
	"errors"
	"time"

	"github.com/vishvananda/netlink/nl"
)

// attempts bounds how often a list is read: on a busy host something always changes.
const attempts = 8

// Whole returns what list does, which it calls again, after 1, 2, 3, ... ms, while something
// changed meanwhile. After 8 attempts, 28 ms, it returns the last list: what changed while the
// kernel was listing may be missing there, and the caller that acts on that has to look again.
func Whole[T any](list func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		all, err := list()
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			return all, err
		}
		if try == attempts {
			return all, nil
		}
		time.Sleep(time.Duration(try) * time.Millisecond)
	}
}
