// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"weir/internal/api"
)

// TestWhatIsStoredIsSaid: a change that no link can take now is in the answer all the same,
// with the link that is waited for, in whatever state the links are.
func TestWhatIsStoredIsSaid(t *testing.T) {
	away := func(h *host) { h.kernel.RemoveDevice("eth0") }
	for name, state := range map[string]struct {
		config string
		before func(h *host) // the agent starts
		after  func(h *host)
		why    string
	}{
		"steered":               {why: "asked by weir"},
		"no device at start":    {before: away, why: "in force once eth0 is steered"},
		"device is gone":        {after: away, why: "in force once eth0 is steered"},
		"no link":               {config: "links: []", why: "in force once a link is steered"},
		"one of two is missing": {config: "links: [{device: eth1, egress: 100mbit}, {device: eth0, egress: 10mbit}]", before: away, why: "in force once eth0 is steered"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, state.config, func(t *testing.T, h *host) {
				if state.before != nil {
					state.before(h)
				}
				h.start()
				h.run("web")
				if state.after != nil {
					state.after(h)
				}
				seconds(3)
				said := func(what string, result api.ChangeResult, err error) {
					t.Helper()
					synctest.Wait()
					mentions := func(c api.Edit) bool { return strings.Contains(c.Why, state.why) }
					if err != nil || !slices.ContainsFunc(result.Changes, mentions) {
						t.Errorf("%s: %+v, %v", what, result.Changes, err)
					}
				}
				for _, dryRun := range []bool{true, false} {
					result, err := h.Set(t.Context(), "web", change("max=7mbit"), dryRun)
					said("set", result, err)
				}
				result, err := h.Attach(t.Context(), api.AttachRequest{Name: "lab", Netns: "lab", Policy: change("max=3mbit")}, false)
				said("attach", result, err)
				result, err = h.Detach(t.Context(), "lab", false)
				said("detach", result, err)
				result, err = h.SetGroup(t.Context(), "office", api.GroupChange{PolicyChange: change("max=9mbit")}, false)
				said("group", result, err)
				result, err = h.DeleteGroup(t.Context(), "office", false)
				said("group delete", result, err)
				result, err = h.Set(t.Context(), "web", change("max=7mbit"), false)
				if err != nil || len(result.Changes)+len(result.Stored) > 0 {
					t.Errorf("what is so already: %+v, %v", result, err)
				}
			})
		})
	}
}
