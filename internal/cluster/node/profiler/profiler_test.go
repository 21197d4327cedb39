// SPDX-License-Identifier: Apache-2.0

package profiler

import (
	"testing"

	"github.com/docker/docker/api/types/container"
)

// TestAContainerWithoutAName is one that its engine removes just now.
func TestAContainerWithoutAName(t *testing.T) {
	for _, c := range []struct {
		names    []string
		id, want string
	}{{[]string{"/web"}, "0123456789abcdef", "web"}, {[]string{"/db/alias", "/web"}, "0123456789abcdef", "web"},
		{nil, "0123456789abcdef", "0123456789ab"}, {[]string{"", "/"}, "0123", "0123"}, {nil, "", ""}} {
		if got := nameOf(container.Summary{ID: c.id, Names: c.names}); got != c.want {
			t.Errorf("%q, %s: %q, want %q", c.names, c.id, got, c.want)
		}
	}
}
