// SPDX-License-Identifier: Apache-2.0

package web

import (
	"regexp"
	"testing"
)

// TestRelative: the page's files name nothing from the top of the host, so that a proxy can have
// the page at a path.
func TestRelative(t *testing.T) {
	absolute := regexp.MustCompile("(?:href|src)=\"/|(?:fetch|send|ask|import)\\([\"`]/|from \"/|[\"`]/(?:v1|session|js)\\b|url\\([\"']?/")
	seen := 0
	for name, f := range allFiles() {
		seen++
		if found := absolute.FindString(string(f.plain)); found != "" {
			t.Errorf("%s: %s", name, found)
		}
	}
	if seen < 20 || !absolute.MatchString(`<script src="/js/app.js">`) || !absolute.MatchString("`/v1/${x}`") {
		t.Errorf("%d files were looked at", seen)
	}
}
