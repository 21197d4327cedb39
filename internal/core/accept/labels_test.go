// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"maps"
	"testing"
)

// TestLabelsThatComeAlong: of the labels of a container from another node those count whose field
// is accepted, and those of others that a pattern names. A label cannot come back by the image.
func TestLabelsThatComeAlong(t *testing.T) {
	given := map[string]string{"weir.min": "60mbit", "weir.weight": "10000", "weir.ingress.limit-packets": "9", "weir.dscp": "ef", "weir.unknown": "x", "weir.pinned": "true",
		"com.docker.compose.project": "tenant-b", "traefik.enable": "true", "ofelia.job-exec.x/y.command": "rm", "org.opencontainers.image.title": "web"}
	baked := map[string]string{"traefik.enable": "true", "weir.min": "70mbit", "maintainer": "x"}
	for _, test := range []struct {
		rules Rules
		want  map[string]string
	}{
		{Rules{Policy: []string{}}, map[string]string{"weir.pinned": "true", "traefik.enable": "", "weir.min": "", "maintainer": ""}},
		{Rules{}, map[string]string{"weir.min": "60mbit", "weir.weight": "10000", "weir.ingress.limit-packets": "9", "weir.pinned": "true", "traefik.enable": "", "maintainer": ""}},
		{Rules{Policy: []string{"group", "dscp"}, Labels: []string{"ofelia.*", "org.*.title", "traefik.[a-z]*", "maintainer"}}, map[string]string{"weir.dscp": "ef", "weir.pinned": "true",
			"weir.min": "", "com.docker.compose.project": "tenant-b", "traefik.enable": "true", "ofelia.job-exec.x/y.command": "rm", "org.opencontainers.image.title": "web"}},
	} {
		if got := test.rules.KeptLabels(given, baked); !maps.Equal(got, test.want) {
			t.Errorf("%+v:\n%v\nwant\n%v", test.rules, got, test.want)
		}
	}
}
