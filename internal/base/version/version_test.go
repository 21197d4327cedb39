// SPDX-License-Identifier: Apache-2.0

package version

import (
	"runtime/debug"
	"testing"
)

func TestDescribe(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}
	dirty := append(commit[:1:1], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for _, tt := range []struct {
		name, number string
		build        *debug.BuildInfo
		want         string
	}{
		{"linker's number wins", "1.2.0", &debug.BuildInfo{Settings: commit}, "1.2.0"},
		{"go install of a release", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.1.0"}}, "v1.1.0"},
		{"a checkout", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: commit}, "devel-0123456789ab"},
		{"a changed checkout", "", &debug.BuildInfo{Settings: dirty}, "devel-0123456789ab-modified"},
		{"nothing recorded", "", nil, "devel"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := describe(tt.number, tt.build)
			if got.Version != tt.want {
				t.Errorf("version %q, want %q", got.Version, tt.want)
			}
			if got.Go == "" || got.Platform == "" {
				t.Errorf("tool chain missing: %+v", got)
			}
		})
	}
}
