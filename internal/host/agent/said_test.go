// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"weir/internal/api"
	"weir/internal/config"
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

// TestWhatIsSaidIsStored: in whatever state a link is, the answer to a change has each field that
// is stored or dropped by it, and none that is not; a dry run says the same and stores nothing;
// what is refused is not stored; what was stored counts after a restart as before it.
func TestWhatIsSaidIsStored(t *testing.T) {
	const file = "links: [{device: eth0, egress: 100mbit}]\ngroups: {office: {weight: 2}}\nworkloads: {web: {weight: 3}}"
	for state, is := range map[string]struct {
		config  string
		set     func(h *host)
		refused string // what is said of each change
	}{
		"steered": {file, func(*host) {}, ""},
		"the device is gone": {file, func(h *host) {
			h.kernel.RemoveDevice("eth0")
			seconds(8)
		}, ""},
		"the device was never there": {strings.ReplaceAll(file, "eth0", "eth7"), func(*host) {}, ""},
		"the device is down": {file, func(h *host) {
			_ = h.tell(h.t.Context(), func() { h.why = "the device is down; ip link set eth0 up" })
		}, ""},
		"another program has its qdisc": {file, func(h *host) {
			h.kernel.FailSet("eth0", errors.New("another program has set fq_codel; force: true replaces it"))
			h.kernel.Disturb("eth0", "the root qdisc is fq_codel")
			seconds(8)
		}, "change not made"},
		"no link is named": {strings.ReplaceAll(file, "{device: eth0, egress: 100mbit}", ""), func(*host) {}, ""},
		"weir.yaml is wrong": {file, func(h *host) {
			h.opts.Load = func() (config.Config, error) { return config.Config{}, errors.New("weir.yaml:3: no such field") }
			_ = h.Reload(h.t.Context(), "test")
		}, ""},
		"weir.yaml has changed": {file, func(h *host) {
			changed := strings.ReplaceAll(file, "weight: 3", "weight: 4, max: 20mbit")
			h.reload(changed)
			h.config = parse(h.t, changed)
		}, ""},
	} {
		t.Run(state, func(t *testing.T) {
			inBubble(t, is.config, func(t *testing.T, h *host) {
				h.start()
				h.run("web")
				_, err := h.Attach(t.Context(), api.AttachRequest{Name: "old", Netns: "old", Policy: change("max=3mbit")}, false)
				if err != nil {
					t.Fatal(err)
				}
				is.set(h)
				for _, step := range []struct {
					what   string
					ask    func(dryRun bool) (api.ChangeResult, error)
					fields string // that are stored or dropped
				}{
					{"set max", h.asks("web", "max=7mbit"), "max"},
					{"set max again", h.asks("web", "max=7mbit"), ""},
					{"set two", h.asks("web", "max=8mbit weight=5"), "max weight"},
					{"set group", h.asks("web", "group=office"), "group"},
					{"group", func(dryRun bool) (api.ChangeResult, error) {
						return h.SetGroup(t.Context(), "office", groupChange("max=40%"), dryRun)
					}, "max"},
					{"reset", h.asks("web", "reset"), "max weight group"},
					{"reset again", h.asks("web", "reset"), ""},
					{"reset of the group", func(dryRun bool) (api.ChangeResult, error) {
						return h.SetGroup(t.Context(), "office", groupChange("reset"), dryRun)
					}, "max"},
					{"attach", func(dryRun bool) (api.ChangeResult, error) {
						return h.Attach(t.Context(), api.AttachRequest{Name: "vm", Netns: "vm", Policy: change("max=3mbit")}, dryRun)
					}, "vm"},
					{"detach", func(dryRun bool) (api.ChangeResult, error) { return h.Detach(t.Context(), "old", dryRun) }, "old"},
					{"set at the end", h.asks("web", "max=9mbit"), "max"},
				} {
					if is.refused != "" {
						h.refuses(step.what, step.ask, is.refused)
						continue
					}
					h.saysWhatIsStored(step.what, step.ask, step.fields)
				}
				before := h.workload("web").Policy
				h.stop()
				if is.refused != "" {
					h.kernel.FailSet("eth0", nil)
				}
				h.start()
				seconds(1)
				if after := h.workload("web").Policy; after.Max != before.Max || after.Weight != before.Weight {
					t.Errorf("web has %+v, and after a restart %+v", before, after)
				}
				if _, err := h.Workload(t.Context(), "old"); (err == nil) != (is.refused != "") {
					t.Errorf("what was detached, after a restart: %v", err)
				}
			})
		})
	}
}

// saysWhatIsStored asks for a change twice, and first for what it would do.
func (h *host) saysWhatIsStored(what string, ask func(dryRun bool) (api.ChangeResult, error), fields string) {
	h.t.Helper()
	before := h.keptSettings()
	said := h.says(what, ask, true)
	if now := h.keptSettings(); now != before {
		h.t.Errorf("%s as a dry run stores\n%s\nbefore\n%s", what, now, before)
	}
	if really := h.says(what, ask, false); really != said {
		h.t.Errorf("%s says %s, and %s as a dry run", what, really, said)
	}
	changed := h.keptSettings() != before
	if changed != (fields != "") || changed != (said != "") {
		h.t.Errorf("%s says %q, and what is stored changes: %v; it should of %q", what, said, changed, fields)
	}
	for field := range strings.FieldsSeq(fields) {
		if !strings.Contains(said, field) {
			h.t.Errorf("%s says %q, which lacks %s", what, said, field)
		}
	}
}

// refuses asks for a change that must be refused, and must leave what is stored.
func (h *host) refuses(what string, ask func(dryRun bool) (api.ChangeResult, error), word string) {
	h.t.Helper()
	before := h.keptSettings()
	if _, err := ask(false); err == nil || !strings.Contains(err.Error(), word) {
		h.t.Errorf("%s is answered %v, want %q", what, err, word)
	}
	if h.keptSettings() != before {
		h.t.Errorf("%s is refused, and stored", what)
	}
}

// asks returns the change of a workload's fields.
func (h *host) asks(name, fields string) func(dryRun bool) (api.ChangeResult, error) {
	return func(dryRun bool) (api.ChangeResult, error) { return h.Set(h.t.Context(), name, change(fields), dryRun) }
}

// says returns all that an answer says.
func (h *host) says(what string, ask func(dryRun bool) (api.ChangeResult, error), dryRun bool) string {
	h.t.Helper()
	result, err := ask(dryRun)
	if err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	var b strings.Builder
	for _, c := range result.Changes {
		fmt.Fprintln(&b, c.What)
	}
	for _, values := range []map[string]string{result.Stored, result.Dropped, result.NotHeld} {
		if len(values) > 0 {
			fmt.Fprintln(&b, values)
		}
	}
	return b.String()
}

// keptSettings is what was asked for at run time and is on the disk.
func (h *host) keptSettings() string {
	h.t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(h.kept()), &all); err != nil {
		h.t.Fatal(err)
	}
	for _, found := range []string{"numbers", "seen"} {
		delete(all, found)
	}
	text, err := json.Marshal(all)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}
