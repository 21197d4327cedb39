// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/face/cli/frame"
)

func watchSample(ws ...api.Workload) api.Sample {
	return api.Sample{At: time.Date(2026, 11, 20, 12, 0, 0, 0, time.Local), Workloads: ws}
}

// TestWatchLines: a new, a changed and a removed object get a line each, a rate gets
// none.
func TestWatchLines(t *testing.T) {
	a := Commands{&frame.App{Format: frame.Table}}
	encode := a.watchEncoder("")
	web := apitest.Workload("web", 3, 20, 0, 5)
	expect := func(want string, ws ...api.Workload) {
		t.Helper()
		got, err := encode(watchSample(ws...))
		if err != nil || string(got) != want {
			t.Errorf("%q (%v), want %q", got, err, want)
		}
	}
	expect("12:00:00  web: docker, active, weight 3, min 20 Mbit/s\n", web)
	web.Links[0].RateBps = 9e6
	expect("", web)
	web.State, web.Note = "refused", "no room"
	expect("12:00:00  web: docker, refused (no room), weight 3, min 20 Mbit/s\n", web)
	expect("12:00:00  web: gone\n")
	expect("")
}

// TestWatchDocuments: with -o json each sample is one line, of one workload where
// one was asked for.
func TestWatchDocuments(t *testing.T) {
	web, cam := apitest.Workload("web", 3, 20, 0, 5), apitest.Workload("cam", 1, 0, 10, 5)
	for key, want := range map[string]string{"": `["web","cam"]`, cam.Key: `"cam"`, "gone": "null"} {
		a := Commands{&frame.App{Format: frame.JSON}}
		got, err := a.watchEncoder(key)(watchSample(web, cam))
		if err != nil || strings.Count(string(got), "\n") != 1 || !strings.HasSuffix(string(got), "\n") {
			t.Fatalf("%q, %v", got, err)
		}
		var list []struct{ Name string }
		var one *struct{ Name string }
		switch {
		case key == "":
			if err := json.Unmarshal(got, &list); err != nil || len(list) != 2 {
				t.Errorf("%s: %v", got, err)
			}
		default:
			if err := json.Unmarshal(got, &one); err != nil || (one == nil) != (want == "null") || one != nil && one.Name != "cam" {
				t.Errorf("%s: %v, want %s", got, err, want)
			}
		}
	}
}

// TestInPlace: a page takes the place of the one before and fits on the screen.
func TestInPlace(t *testing.T) {
	if got, want := inPlace("abc\nde\n", 0, 0), "\x1b[Habc\x1b[K\r\nde\x1b[K\r\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := inPlace("abcdef\nb\nc\nd\n", 4, 4), "\x1b[Habc…\x1b[K\r\nb\x1b[K\r\n...…\x1b[K\r\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := inPlace("a\x1b[2Jb\n", 80, 24); strings.Count(got, "\x1b") != 3 {
		t.Errorf("%q lets a name move the cursor", got)
	}
}

// TestLongNames: a name of 85 characters does not push the other columns away.
func TestLongNames(t *testing.T) {
	long := apitest.Workload(strings.Repeat("a-long-name", 8), 1, 0, 0, 1)
	text := renderWorkloads([]api.Workload{long, apitest.Workload("web", 1, 0, 0, 1)}, nil)
	for line := range strings.Lines(text) {
		if at := strings.Index(line, "docker"); at > longestName+len("…")+1 { // the ellipsis has 3 bytes
			t.Errorf("the second column begins at %d: %s", at, line)
		}
	}
	if !strings.Contains(text, "a-long…  docker") {
		t.Errorf("the name is not cut where it should be:\n%s", text)
	}
}
