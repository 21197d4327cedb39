// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink/nl"
)

func TestWhole(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name    string
		answers []error
		calls   int
		want    error
	}{
		{"at once", []error{nil}, 1, nil},
		{"changed twice", []error{nl.ErrDumpInterrupted, nl.ErrDumpInterrupted, nil}, 3, nil},
		{"failed after a change", []error{nl.ErrDumpInterrupted, broken}, 2, broken},
		{"changes for ever", []error{nl.ErrDumpInterrupted}, attempts, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			got, err := Whole(func() (int, error) {
				answer := c.answers[min(calls, len(c.answers)-1)]
				calls++
				return calls, answer
			})
			if got != c.calls || calls != c.calls || !errors.Is(err, c.want) {
				t.Errorf("list %d of %d calls, error %v; want the list of call %d, error %v", got, calls, err, c.calls, c.want)
			}
		})
	}
}
