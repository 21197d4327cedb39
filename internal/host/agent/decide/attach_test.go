// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"

	"weir/internal/config"
)

func TestAsWorkload(t *testing.T) {
	for _, tt := range []struct {
		at        config.Attachment
		key, kind string
	}{
		{config.Attachment{Name: "a", Netns: "x"}, "netns:a", "netns"},
		{config.Attachment{Name: "a", Device: "x"}, "dev:a", "device"},
		{config.Attachment{Name: "a", Unit: "x"}, "unit:a", "unit"},
		{config.Attachment{Name: "a", Cgroup: "x"}, "cgroup:a", "cgroup"},
		{config.Attachment{Device: "x*"}, "", "vm"},
		{config.Attachment{Unit: "x*"}, "", "unit"},
	} {
		if w := WorkloadOf(tt.at); w.Key != tt.key || w.Kind != tt.kind || w.Name != tt.at.Name {
			t.Errorf("%+v: %+v", tt.at, w)
		}
	}
}
