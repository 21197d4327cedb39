// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/core/refusal"
)

func (h *host) attachPod(req api.AttachRequest) {
	h.t.Helper()
	if _, err := h.Attach(h.t.Context(), req, false); err != nil {
		h.t.Fatalf("pod %s: %v", req.Name, err)
	}
}

// TestPodIsAttachedAnew: a second request about a pod says all that holds from then on, where
// the pod is included; the pod keeps its class.
func TestPodIsAttachedAnew(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.attachPod(api.AttachRequest{Name: "default/db", Pod: "s0", Netns: "/run/netns/db", Policy: change("min=20mbit")})
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s1", Netns: "/run/netns/a", Policy: change("weight=3 max=40mbit")})
		before := h.workload("default/web")
		if before.Kind != "pod" || before.Key != "pod:default/web" || before.ID != "s1" || before.State != "active" {
			t.Errorf("%+v", before)
		}
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s2", Netns: "/run/netns/b", Policy: change("min=20mbit")})
		h.expect("attached anew", "eth0", `
			0 host weight 1
			1 default/db weight 1 min 20 Mbit/s: veth-default/db
			2 default/web weight 1 min 20 Mbit/s: veth-default/web`)
		if w := h.workload("s2"); w.ID != "s2" || w.Class != before.Class || w.Origin["max"] != "default" || w.Origin["min"] != "set" {
			t.Errorf("%+v", w)
		}
		for what, req := range map[string]api.AttachRequest{
			"no room": {Name: "default/web", Pod: "s3", Netns: "/run/netns/c", Policy: change("min=90mbit")},
			"mistake": {Name: "default/web", Pod: "s3", Netns: "/run/netns/c", Policy: change("weight=0")},
			"dry run": {Name: "default/web", Pod: "s3", Netns: "/run/netns/c", Policy: change("weight=7")},
		} {
			if _, err := h.Attach(t.Context(), req, what == "dry run"); (err == nil) != (what == "dry run") {
				t.Errorf("%s: %v", what, err)
			}
			if w := h.workload("default/web"); w.ID != "s2" || w.Policy.Min.Compact() != "20mbit" || w.Policy.Weight != 1 {
				t.Errorf("after %s: %+v", what, w)
			}
		}
		kept := h.state("eth0")
		h.stop()
		h.start()
		h.expect("another agent", "eth0", kept)
		if w := h.workload("default/web"); w.ID != "s2" {
			t.Errorf("another agent: %+v", w)
		}
		for _, name := range []string{"default/web", "default/db"} {
			if _, err := h.Detach(t.Context(), name, false); err != nil {
				t.Error(err)
			}
		}
		h.expect("detached", "eth0", "0 host weight 1")
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s4", Netns: "/run/netns/d"})
		if w := h.workload("default/web"); w.Origin["min"] != "default" || w.Class != before.Class {
			t.Errorf("a pod of the same name later: %+v", w)
		}
	})
}

// TestPodDoesNotWaitForItsSource: a pod whose devices are there has its class, with them, in one
// step, and the answer does not wait until the source tells of it. What the source says later
// changes nothing.
func TestPodDoesNotWaitForItsSource(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.netns.deaf(true)
		before, sets := time.Now(), h.kernel.Sets("eth0")
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s1", Netns: "/run/netns/a", Policy: change("weight=3")})
		const want = "0 host weight 1\n1 default/web weight 3: veth-default/web"
		if took := time.Since(before); took != 0 {
			t.Errorf("the answer took %v", took)
		}
		h.expect("the source is silent", "eth0", want)
		h.netns.deaf(false)
		h.expect("the source has told of it", "eth0", want)
		if n := h.kernel.Sets("eth0") - sets; n != 1 {
			t.Errorf("the link was set %d times", n)
		}
	})
}

// TestPodsMinBeforeItsNetwork: a pod may have a min before it has a network.
func TestPodsMinBeforeItsNetwork(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "uid", Policy: change("min=60mbit")})
		_, err := h.Attach(t.Context(), api.AttachRequest{Name: "default/late", Pod: "s1", Netns: "/run/netns/late", Policy: change("min=60mbit")}, false)
		refused(t, err, refusal.NoRoom, "default/web")
		h.attachPod(api.AttachRequest{Name: "default/web", Pod: "s2", Netns: "/run/netns/a", Policy: change("min=60mbit")})
		h.expect("its network is up", "eth0", "0 host weight 1\n1 default/web weight 1 min 60 Mbit/s: veth-default/web")
	})
}

// TestWrongPods: what cannot be a pod is refused, with field and remedy.
func TestWrongPods(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		want := h.state("eth0")
		for i, c := range []struct {
			req   api.AttachRequest
			words []string
		}{
			{api.AttachRequest{Name: "web", Pod: "x"}, []string{"name", "NAMESPACE/POD"}},
			{api.AttachRequest{Name: "", Pod: "x"}, []string{"name"}},
			{api.AttachRequest{Name: "/web", Pod: "x"}, []string{"name", "NAMESPACE/POD"}},
			{api.AttachRequest{Name: "a/b/c", Pod: "x"}, []string{"name", "NAMESPACE/POD"}},
			{api.AttachRequest{Name: "Default/web", Pod: "x"}, []string{"name", "NAMESPACE/POD"}},
			{api.AttachRequest{Name: "default/" + strings.Repeat("x", 254), Pod: "x"}, []string{"name", "NAMESPACE/POD"}},
			{api.AttachRequest{Name: "default/web", Pod: "x", Unit: "web.service"}, []string{"pod", "leave device and unit out"}},
			{api.AttachRequest{Name: "default/web", Netns: "x"}, []string{"name", "letters"}},
			{api.AttachRequest{Name: "default/web", Pod: "x", Netns: "shared-web"}, []string{"docker:web"}},
		} {
			_, err := h.Attach(t.Context(), c.req, false)
			for _, word := range c.words {
				if err == nil || !strings.Contains(fmt.Sprint(refusal.Of(err).Field, " ", err), word) {
					t.Errorf("%d: %v, want %q in it", i, err, word)
				}
			}
		}
		h.expect("after wrong requests", "eth0", want)
	})
}
