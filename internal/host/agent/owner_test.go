// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/host/discover"
)

// What belongs to another workload cannot be attached, not in a dry run either, and
// nothing is stored.
func TestAttachWhatIsOwned(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.docker.change(func(list map[string]discover.Workload) {
			w := container("batch")
			w.Devices, w.Cgroups = nil, []string{"/sys/fs/cgroup/batch"}
			list[w.Key] = w
		})
		if _, err := h.Attach(t.Context(), api.AttachRequest{Name: "lab", Netns: "lab"}, false); err != nil {
			t.Fatal(err)
		}
		before := h.kept()
		for _, test := range []struct {
			req   api.AttachRequest
			words []string
		}{
			{api.AttachRequest{Name: "x", Device: "vethweb"}, []string{"device", "vethweb", "web (docker:web)", "weir set web"}},
			{api.AttachRequest{Name: "x", Netns: "shared-web"}, []string{"netns", "shared-web", "vethweb", "docker:web"}},
			{api.AttachRequest{Name: "x", Cgroup: "/sys/fs/cgroup/batch"}, []string{"cgroup", "batch (docker:batch)"}},
			{api.AttachRequest{Name: "x", Device: "veth-lab"}, []string{"lab (netns:lab)", "weir detach lab"}},
		} {
			for _, dryRun := range []bool{true, false} {
				_, err := h.Attach(t.Context(), test.req, dryRun)
				refused(t, err, refusal.Conflict, test.words...)
			}
		}
		if h.kept() != before {
			t.Errorf("stored all the same: %s", h.kept())
		}
		if _, err := h.Attach(t.Context(), api.AttachRequest{Name: "y", Device: "tap9"}, true); err != nil {
			t.Errorf("what nobody has: %v", err)
		}
	})
}
