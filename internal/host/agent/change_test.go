// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/refusal"
)

// A setting that changes nothing is stored all the same, and counts before the
// configuration; the answer says so, and says what a reset drops.
func TestStoredAndDropped(t *testing.T) {
	inBubble(t, "groups: {office: {weight: 2}}\nworkloads: {web: {weight: 3, discipline: fifo}}", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		for _, test := range []struct {
			fields          string
			dryRun          bool
			changes         int
			stored, dropped map[string]string
		}{
			{"weight=3", true, 0, map[string]string{"weight": "3"}, nil},
			{"weight=3", false, 0, map[string]string{"weight": "3"}, nil},
			{"weight=3", false, 0, nil, nil}, // it was stored before
			{"weight=3 max=10mbit", false, 1, nil, nil},
			{"weight=4 min=none", false, 1, map[string]string{"min": "none"}, nil},
			{"reset weight=3", true, 2, nil, map[string]string{"min": "none", "max": "10mbit"}},
			{"reset", false, 2, nil, map[string]string{"min": "none", "max": "10mbit", "weight": "4"}},
			{"reset", false, 0, nil, nil},
			{"weight=3", false, 0, map[string]string{"weight": "3"}, nil},
			{"reset", false, 0, nil, map[string]string{"weight": "3"}},
		} {
			result, err := h.Set(t.Context(), "web", change(test.fields), test.dryRun)
			if err != nil {
				t.Fatal(err)
			}
			if (len(result.Changes) > 0) != (test.changes > 0) || !maps.Equal(result.Stored, test.stored) || !maps.Equal(result.Dropped, test.dropped) {
				t.Errorf("%s: %+v", test.fields, result)
			}
		}
		// Times and a quota change no link before they are due.
		for _, test := range []struct{ field, value, want string }{
			{"quota", "egress 20MB per 1h then max 2mbit", "web: quota none -> egress 20MB per 1h then max 2mbit"},
			{"quota", "none", "web: quota egress 20MB per 1h then max 2mbit -> none"},
			{"when", "daily 12:00-13:00 UTC max 5mbit", "web: when none -> daily 12:00-13:00 UTC max 5mbit"},
		} {
			for _, dryRun := range []bool{true, false} {
				result, err := h.Set(t.Context(), "web", apitest.Change(test.field, test.value), dryRun)
				if err != nil || len(result.Changes) != 1 || result.Changes[0].What != test.want {
					t.Errorf("%s %s: %+v, %v", test.field, test.value, result.Changes, err)
				}
			}
		}
		result, err := h.Set(t.Context(), "web", apitest.Change("discipline", "fifo"), false)
		if err != nil || !maps.Equal(result.Stored, map[string]string{"discipline": "fifo"}) {
			t.Errorf("discipline: %+v, %v", result, err)
		}
		if result := h.setGroup("office", "weight=2"); !maps.Equal(result.Stored, map[string]string{"weight": "2"}) || len(result.Changes) > 0 {
			t.Errorf("group: %+v", result)
		}
		if result := h.setGroup("office", "reset"); !maps.Equal(result.Dropped, map[string]string{"weight": "2"}) {
			t.Errorf("group: %+v", result)
		}
	})
}

func TestBadChanges(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.max=20mbit")
		h.run("webber")
		for _, test := range []struct {
			name, fields string
			kind         refusal.Kind
			words        []string
		}{
			{"wbe", "weight=1", refusal.Unknown, []string{"wbe", "did you mean web"}},
			{"zzz", "weight=1", refusal.Unknown, []string{"weir get"}},
			{"7765", "weight=1", refusal.Invalid, []string{"2 workloads", "web (776562000000)", "longer"}},
			{"web", "", refusal.Invalid, []string{"nothing to change"}},
			{"web", "min=20mbps", refusal.Invalid, []string{"min", "160mbit"}},
			{"web", "weight=0", refusal.Invalid, []string{"weight", "1 to 10000"}},
			{"web", "min=30mbit", refusal.Invalid, []string{"30 Mbit/s is above the max", "eth0"}},
			{"web", "min=1gbit max=none", refusal.NoRoom, []string{"asked 1 Gbit/s", "free 100 Mbit/s"}},
		} {
			before, sets := h.state("eth0"), h.kernel.Sets("eth0")
			_, err := h.Set(t.Context(), test.name, change(test.fields), false)
			refused(t, err, test.kind, test.words...)
			if h.state("eth0") != before || h.kernel.Sets("eth0") != sets {
				t.Errorf("%s %s: something was applied", test.name, test.fields)
			}
		}
		if got := h.workload("776562626572").Name; got != "webber" {
			t.Errorf("prefix of an id gives %s", got)
		}
		if got := h.workload("docker:web").Name; got != "web" {
			t.Errorf("key gives %s", got)
		}
	})
}

func TestDryRun(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		before, sets := h.state("eth0"), h.kernel.Sets("eth0")
		kept, _ := os.ReadFile(filepath.Join(h.dir, "state.json"))
		result, err := h.Set(t.Context(), "web", change("weight=3 min=20mbit"), true)
		if err != nil {
			t.Fatal(err)
		}
		want := api.Edit{What: "eth0: web: weight 1 -> 3, min none -> 20 Mbit/s", Why: "asked by weir set"}
		if !result.DryRun || len(result.Changes) != 1 || result.Changes[0] != want {
			t.Errorf("got %+v, want %+v", result.Changes, want)
		}
		if result.Workload.Policy.Min.Compact() != "20mbit" {
			t.Errorf("workload %+v", result.Workload)
		}
		result, err = h.Attach(t.Context(), api.AttachRequest{Name: "vm", Netns: "vm", Policy: change("min=90mbit")}, true)
		if err != nil || len(result.Changes) != 1 || !strings.Contains(result.Changes[0].What, "add vm:") {
			t.Errorf("attach: %+v, %v", result, err)
		}
		_, err = h.Set(t.Context(), "web", change("min=200mbit"), true)
		refused(t, err, refusal.NoRoom)
		seconds(5)
		after, _ := os.ReadFile(filepath.Join(h.dir, "state.json"))
		if h.state("eth0") != before || h.kernel.Sets("eth0") != sets || string(after) != string(kept) {
			t.Error("a dry run changed something")
		}
	})
}

func TestAttach(t *testing.T) {
	inBubble(t, "attach: [{name: fixed, netns: fixed}]\nworkloads: {vm: {weight: 4}}", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		result, err := h.Attach(t.Context(), api.AttachRequest{Name: "vm", Device: "tap0", Policy: change("min=20mbit")}, false)
		if err != nil {
			t.Fatal(err)
		}
		if w := result.Workload; w.Kind != "device" || w.State != "active" || !slices.Equal(w.Devices, []string{"veth-vm"}) {
			t.Errorf("the answer shows %+v", w)
		}
		const want = `
			0 host weight 1
			1 fixed weight 1: veth-fixed
			2 web weight 1: vethweb
			3 vm weight 4 min 20 Mbit/s: veth-vm`
		h.expect("attached", "eth0", want)
		for _, test := range []struct {
			req   api.AttachRequest
			kind  refusal.Kind
			words []string
		}{
			{api.AttachRequest{Name: "web", Netns: "x"}, refusal.Conflict, []string{"taken by docker:web"}},
			{api.AttachRequest{Name: "host", Netns: "x"}, refusal.Invalid, []string{"host itself"}},
			{api.AttachRequest{Name: "x y", Netns: "x"}, refusal.Invalid, []string{"letters"}},
			{api.AttachRequest{Name: "x"}, refusal.Invalid, []string{"exactly one"}},
			{api.AttachRequest{Name: "x", Netns: "a", Device: "b"}, refusal.Invalid, []string{"exactly one"}},
			{api.AttachRequest{Name: "x", Device: "eth0"}, refusal.Invalid, []string{"is a link"}},
			{api.AttachRequest{Name: "x", Netns: "missing"}, refusal.Invalid, []string{"does not exist"}},
			{api.AttachRequest{Name: "x", Netns: "x", Policy: change("min=90mbit")}, refusal.NoRoom, []string{"free 80 Mbit/s"}},
			{api.AttachRequest{Name: "x", Netns: "x", Policy: change("weight=0")}, refusal.Invalid, []string{"weight"}},
		} {
			_, err := h.Attach(t.Context(), test.req, false)
			refused(t, err, test.kind, test.words...)
		}
		seconds(2)
		h.expect("refusals leave nothing", "eth0", want)
		h.stop()
		h.start()
		h.expect("attached again after a restart", "eth0", want)
		_, err = h.Detach(t.Context(), "fixed", false)
		refused(t, err, refusal.Conflict, "attach:")
		_, err = h.Detach(t.Context(), "web", false)
		refused(t, err, refusal.Conflict)
		dry, err := h.Detach(t.Context(), "vm", true)
		if err != nil || len(dry.Changes) != 2 {
			t.Errorf("dry run: %+v, %v", dry, err)
		}
		h.expect("dry run", "eth0", want)
		if _, err = h.Detach(t.Context(), "vm", false); err != nil {
			t.Fatal(err)
		}
		seconds(2)
		h.expect("detached", "eth0", "0 host weight 1\n1 fixed weight 1: veth-fixed\n2 web weight 1: vethweb")
	})
}
