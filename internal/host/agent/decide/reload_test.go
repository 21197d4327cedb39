// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"testing"

	"weir/internal/config"
)

// TestNeedRestart: settings of the page are read at the start only, and only a difference in
// them is told.
func TestNeedRestart(t *testing.T) {
	before := config.Default()
	before.Web = config.Web{Listen: []string{"127.0.0.1:7480"}, Hosts: []string{"a.example"}}
	next := before
	next.Web.Hosts = []string{"a.example"}
	if late := NeedRestart(before, next); len(late) != 0 {
		t.Errorf("the same settings need a restart: %v", late)
	}
	next.Web.Hosts = []string{"b.example"}
	if late := NeedRestart(before, next); !slices.Equal(late, []string{"web"}) {
		t.Errorf("another host name needs a restart for %v", late)
	}
}
