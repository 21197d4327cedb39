// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"strings"
	"testing"

	"weir/internal/base/cgroup"
	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

func FuzzCgroupContainer(f *testing.F) {
	f.Add("12:pids:/docker/" + idA + "\n")
	f.Add("0::/system.slice/docker-" + idA + ".scope")
	boundtest.Seeds[string](f, bound.Policy, "0::/")
	f.Fuzz(func(t *testing.T, text string) {
		boundtest.Hold(t, func() {
			id := cgroupContainer([]byte(text))
			if id == "" {
				return
			}
			if len(id) != 64 || !strings.Contains(text, id) || strings.Trim(id, "0123456789abcdef") != "" {
				t.Errorf("%q is no container id of %q", id, text)
			}
		})
	})
}

func FuzzParseNsid(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 8, 0, 1, 0, 5, 0, 0, 0}) // nsid 5
	f.Add([]byte{0, 0, 0, 0, 6, 0, 1, 0, 5, 0})       // cut off
	f.Fuzz(func(t *testing.T, data []byte) {
		if nsid, ok := parseNsid(data); !ok && nsid != 0 {
			t.Errorf("number %d with a refusal", nsid)
		}
	})
}

func TestParseNsid(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		nsid int
		ok   bool
	}{
		{"five", []byte{0, 0, 0, 0, 8, 0, 1, 0, 5, 0, 0, 0}, 5, true},
		{"none", []byte{0, 0, 0, 0, 8, 0, 1, 0, 255, 255, 255, 255}, -1, true},
		{"another attribute", []byte{0, 0, 0, 0, 8, 0, 2, 0, 5, 0, 0, 0}, 0, false},
		{"short", []byte{0, 0}, 0, false},
		{"empty", nil, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if nsid, ok := parseNsid(c.data); nsid != c.nsid || ok != c.ok {
				t.Errorf("got %d %v, want %d %v", nsid, ok, c.nsid, c.ok)
			}
		})
	}
}

func FuzzCgroupOfContainer(f *testing.F) {
	f.Add("2:cpu:/docker/"+idA+"\n0::/system.slice/docker-"+idA+".scope/init\n", idA)
	f.Add("0::/../"+idA, idA)
	for _, text := range boundtest.Texts(bound.Policy, "0::/") {
		f.Add(text, idA)
	}
	f.Fuzz(func(t *testing.T, text, id string) {
		boundtest.Hold(t, func() {
			path := cgroup.OfContainer(cgroup.Of(text), id)
			if path != "" && (!strings.Contains(path, id) || !strings.Contains(text, path) || strings.HasPrefix(path, "/..")) {
				t.Errorf("%q", path)
			}
		})
	})
}
