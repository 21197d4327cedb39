// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"strings"
	"testing"

	"weir/internal/host/discover"
)

func TestOne(t *testing.T) {
	list := []discover.Workload{
		{Key: "docker:web", Name: "web", ID: "aa11"}, {Key: "netns:web", Name: "web"},
		{Key: "docker:aa", Name: "aa", ID: "ab22"}, {Key: "docker:db", Name: "db", ID: "ac33"},
	}
	for name, want := range map[string]string{
		"netns:web": "netns:web",
		"aa":        "docker:aa", // a name counts before a prefix
		"ab":        "docker:ab22",
		"a":         "fits 3 workloads: aa (ab22), db (ac33), web (aa11)",
		"web":       "fits 2 workloads: docker:web, netns:web",
		"dc":        "did you mean db?",
		"":          "no workload is called",
	} {
		got, err := One(name, list)
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v, want %q", name, err, want)
			}
			continue
		}
		if got.Key != want && "docker:"+got.ID != want {
			t.Errorf("%q: got %s, want %s", name, got.Key, want)
		}
	}
}
