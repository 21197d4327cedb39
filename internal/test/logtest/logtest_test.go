// SPDX-License-Identifier: Apache-2.0

package logtest

import (
	"fmt"
	"testing"
)

func TestBuffer(t *testing.T) {
	var log Buffer
	go fmt.Fprint(&log, "one two\nthree four\n")
	log.Wait(t, "two", "one")
	for _, words := range [][]string{{"one", "four"}, {"five"}} {
		if log.Has(words...) {
			t.Errorf("no line has all of %q", words)
		}
	}
}
