// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"weir/internal/api/apitest"
	"weir/internal/base/audit"
	"weir/internal/config"
)

// audited is a host with an audit log, and the log's new lines.
type audited struct {
	*host
	seen int
}

// lines are the entries since the last call, as "VIA ACTION OBJECT BEFORE -> AFTER RESULT".
func (a *audited) lines() []string {
	a.t.Helper()
	list, err := a.audit.Read(a.t.Context(), audit.Query{})
	if err != nil {
		a.t.Fatal(err)
	}
	var lines []string
	for _, e := range list[a.seen:] {
		before, _ := json.Marshal(e.Before)
		after, _ := json.Marshal(e.After)
		lines = append(lines, fmt.Sprintf("%s %s %s %s -> %s %s", e.Who.Via, e.Action, e.Object, before, after, e.Result))
	}
	a.seen = len(list)
	return lines
}

func (a *audited) expect(what string, want ...string) {
	a.t.Helper()
	if got := a.lines(); !slices.Equal(got, want) {
		a.t.Errorf("%s: the audit log got\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// ask is a request as the server makes it.
func (a *audited) ask(what string, f func(context.Context) error) error {
	return a.audit.Do(a.t.Context(), audit.Entry{Who: audit.Who{Via: audit.ViaSocket}, Action: what, Object: "?"}, f)
}

// TestWhatChangesAPolicyIsRecorded goes through all ways by which a policy can change.
func TestWhatChangesAPolicyIsRecorded(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		next := "links: [{device: eth0, egress: 100mbit}]\n"
		h.load = func() (config.Config, error) { return config.Parse("weir.yaml", []byte(next)) }
		h.audit = audit.New(h.dir+"/audit.log", slog.New(slog.DiscardHandler))
		a := &audited{host: h}
		h.start()
		a.expect("start", `agent take-over eth0 null -> null done`)
		h.run("web")
		a.expect("a container without labels")
		h.run("db", "weir.min=20mbit")
		list := a.lines()
		if len(list) != 1 || !strings.HasPrefix(list[0], "label policy db null -> {") || !strings.Contains(list[0], `"min":"20mbit"`) {
			t.Errorf("a container with labels: %q", list)
		}
		set := func(name, fields string, dry bool) error {
			return a.ask("set-policy", func(ctx context.Context) error { _, err := h.Set(ctx, name, change(fields), dry); return err })
		}
		if err := set("web", "max=10mbit weight=3", false); err != nil {
			t.Fatal(err)
		}
		a.expect("set", `socket set-policy web {"max":"none","weight":1} -> {"max":"10mbit","weight":3} done`)
		if err := set("776562", "max=none", false); err != nil {
			t.Fatal(err)
		}
		a.expect("set by a prefix of its id", `socket set-policy web {"max":"10mbit"} -> {"max":"none"} done`)
		if err := set("web", "min=90mbit", false); err == nil {
			t.Fatal("no refusal")
		}
		a.expect("refused", `socket set-policy ? null -> null refused`)
		if err := a.ask("set-group", func(ctx context.Context) error {
			_, err := h.SetGroup(ctx, "team", apitest.GroupChange("max", "40mbit"), false)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		list = a.lines()
		if len(list) != 1 || !strings.HasPrefix(list[0], "socket set-group team null -> {") || !strings.Contains(list[0], `"max":"40mbit"`) {
			t.Errorf("a group: %q", list)
		}
		next = "links: [{device: eth0, egress: 100mbit}]\nworkloads: {web: {dscp: ef}}\n"
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		a.expect("reload", `weir.yaml reload weir.yaml null -> null done`, `weir.yaml policy web {"dscp":"none"} -> {"dscp":"ef"} done`)
		if err := h.Reload(t.Context(), "test"); err != nil {
			t.Fatal(err)
		}
		a.expect("reload of the same")
		next = "nonsense: 1\n"
		if err := h.Reload(t.Context(), "test"); err == nil {
			t.Fatal("no error")
		}
		_ = h.Reload(t.Context(), "test")
		a.expect("reload of a bad file, twice", `weir.yaml reload weir.yaml null -> null failed`)
		h.kill("web")
		h.kill("db")
		seconds(40)
		a.expect("containers that go")
	})
}
