// SPDX-License-Identifier: Apache-2.0

package nri

import (
	"testing"

	"github.com/containerd/nri/pkg/api"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

// FuzzSandbox: whatever the runtime says of a pod, reading it costs what one input may.
func FuzzSandbox(f *testing.F) {
	f.Add("web-0", "kubepods-burstable-podx.slice", "/run/netns/a")
	for _, text := range boundtest.Texts(bound.Policy, "kubepods-") {
		f.Add(text, text+".slice", text)
	}
	f.Fuzz(func(t *testing.T, name, parent, path string) {
		boundtest.Hold(t, func() {
			p := podOf(&api.PodSandbox{Id: name, Name: name, Namespace: name, Annotations: map[string]string{name: parent},
				Linux: &api.LinuxPodSandbox{CgroupParent: parent, Namespaces: []*api.LinuxNamespace{{Type: "network", Path: path}}}})
			if p.Netns != path && len(path) < bound.Path || len(p.Netns) >= bound.Path {
				t.Errorf("%d bytes of namespace out of %d", len(p.Netns), len(path))
			}
			if len(p.Cgroup) > len(parent)*len(parent)+10 || len(parent) >= bound.Path && p.Cgroup != "" {
				t.Errorf("%d bytes of cgroup out of %d", len(p.Cgroup), len(parent))
			}
		})
	})
}
