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
			id := cgroupContainer(text)
			if id == "" {
				return
			}
			if len(id) != 64 || !strings.Contains(text, id) || strings.Trim(id, "0123456789abcdef") != "" {
				t.Errorf("%q is no container id of %q", id, text)
			}
		})
	})
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
