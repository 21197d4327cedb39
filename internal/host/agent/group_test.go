// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/plan"
	"weir/internal/core/refusal"
	"weir/internal/host/dataplane/fake"
)

// expectGroups compares with one line for each class that is a group or in one:
// "2 tenant group min 10 Mbit/s", "1 web in 2".
func (h *host) expectGroups(what, want string) {
	h.t.Helper()
	seconds(1)
	var b strings.Builder
	for _, c := range h.kernel.State("eth0").Classes {
		if c.Group {
			fmt.Fprintf(&b, "%d %s group weight %d min %v max %v\n", c.ID, c.Name, c.Weight, c.Min, c.Max)
		} else if c.Parent != 0 {
			fmt.Fprintf(&b, "%d %s in %d min %v\n", c.ID, c.Name, c.Parent, c.Min)
		}
	}
	if got := b.String(); got != flush(want) {
		h.t.Errorf("%s: got\n%swant\n%s", what, got, flush(want))
	}
}

func groupChange(text string) api.GroupChange {
	return api.GroupChange{PolicyChange: change(text)}
}

func (h *host) setGroup(name, fields string) api.ChangeResult {
	h.t.Helper()
	result, err := h.SetGroup(h.t.Context(), name, groupChange(fields), false)
	if err != nil {
		h.t.Fatalf("group set %s %s: %v", name, fields, err)
	}
	return result
}

func (h *host) join(name, group string) {
	h.t.Helper()
	if _, err := h.Set(h.t.Context(), name, apitest.Change("group", group), false); err != nil {
		h.t.Fatalf("set %s --group %s: %v", name, group, err)
	}
}

// A group's life: made, joined, changed, kept across a restart, left, deleted.
func TestGroups(t *testing.T) {
	inBubble(t, "labels: {allow: [min, group]}\ngroups: {office: {weight: 3, max: 50%}}", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.min=20mbit")
		h.run("cam", "weir.group=office", "weir.min=10mbit")
		h.expectGroups("from the file and a label", `
			1 office group weight 3 min 10 Mbit/s max 50 Mbit/s
			3 cam in 1 min 10 Mbit/s`)
		result := h.setGroup("tenant", "weight=2 max=40mbit")
		if result.Group == nil || result.Group.Policy.Max.Compact() != "40mbit" || len(result.Changes) != 1 ||
			result.Changes[0].What != "eth0: add group tenant: weight 2, max 40 Mbit/s" {
			t.Errorf("result %+v", result)
		}
		h.join("web", "tenant")
		const want = `
			1 office group weight 3 min 10 Mbit/s max 50 Mbit/s
			2 web in 4 min 20 Mbit/s
			3 cam in 1 min 10 Mbit/s
			4 tenant group weight 2 min 20 Mbit/s max 40 Mbit/s`
		h.expectGroups("joined", want)
		h.stop()
		h.start()
		h.expectGroups("restarted", want)
		groups, err := h.Groups(t.Context())
		if err != nil || len(groups) != 2 || groups[1].Name != "tenant" || !reflect.DeepEqual(groups[1].Members, []string{"web"}) ||
			groups[1].Origin["max"] != "set" || groups[1].Origin["min"] != "default" || groups[0].Origin["weight"] != "config" || groups[1].Links[0].MinBps != 20e6 {
			t.Errorf("groups %+v, %v", groups, err)
		}
		_, err = h.DeleteGroup(t.Context(), "tenant", false)
		refused(t, err, refusal.Conflict, "still in it: web", "weir set web --group none")
		_, err = h.DeleteGroup(t.Context(), "office", false)
		refused(t, err, refusal.Conflict, "in the configuration", "groups:")
		_, err = h.DeleteGroup(t.Context(), "tennant", false)
		refused(t, err, refusal.Unknown, "did you mean tenant?")
		h.join("web", "none")
		if _, err := h.DeleteGroup(t.Context(), "tenant", false); err != nil {
			t.Fatal(err)
		}
		h.setGroup("office", "weight=7")
		h.setGroup("office", "reset")
		h.expectGroups("left, deleted, reset", `
			1 office group weight 3 min 10 Mbit/s max 50 Mbit/s
			3 cam in 1 min 10 Mbit/s`)
		h.setGroup("new", "")
		h.expectGroups("a new group has a number of its own", `
			1 office group weight 3 min 10 Mbit/s max 50 Mbit/s
			3 cam in 1 min 10 Mbit/s
			5 new group weight 1 min 0 bit/s max 0 bit/s`)
	})
}

// A request about groups that cannot be held changes nothing.
func TestGroupsRefused(t *testing.T) {
	inBubble(t, "labels: {allow: [weight, min, group]}", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.min=20mbit")
		h.run("cam", "weir.min=15mbit")
		h.run("big", "weir.min=50mbit")
		h.setGroup("tenant", "max=40mbit")
		h.join("web", "tenant")
		h.join("cam", "tenant")
		before := h.state("eth0")
		ctx := t.Context()
		group := func(fields string) error {
			_, err := h.SetGroup(ctx, "tenant", groupChange(fields), false)
			return err
		}
		set := func(name string, c api.PolicyChange) error {
			_, err := h.Set(ctx, name, c, false)
			return err
		}
		refused(t, group("min=30mbit"), refusal.Conflict, "min", "add up to 35 Mbit/s", "write 35mbit or more", "web (20 Mbit/s)")
		refused(t, group("max=30mbit"), refusal.Conflict, "max", "add up to 35 Mbit/s")
		refused(t, group("min=60mbit max=80mbit"), refusal.NoRoom, "asked 60 Mbit/s", "free 50 Mbit/s", "big (50 Mbit/s)")
		refused(t, group("min=50mbit"), refusal.Invalid, "min", "above the max, 40 Mbit/s")
		refused(t, group(""), refusal.Invalid, "nothing to change")
		refused(t, set("web", change("min=30mbit")), refusal.NoRoom, "group tenant has no room", "the max of group tenant, 40 Mbit/s", "ask for 25mbit or less")
		refused(t, set("big", apitest.Change("group", "tenant")), refusal.NoRoom, "group", "asked 50 Mbit/s", "free 5 Mbit/s")
		refused(t, set("big", apitest.Change("group", "tennant")), refusal.Invalid, "no such group", "weir group set tennant")
		refused(t, set("big", apitest.Change("group", "a b")), refusal.Invalid, "cannot be a group's name")
		_, err := h.SetGroup(ctx, "none", api.GroupChange{}, false)
		refused(t, err, refusal.Invalid, "stands for no group")
		if got := h.state("eth0"); got != before {
			t.Errorf("something was changed:\n%swas\n%s", got, before)
		}
		if err := group("min=40mbit"); err != nil {
			t.Error(err)
		}
		h.run("late", "weir.group=nobody")
		if w := h.workload("late"); w.State != "refused" || !strings.Contains(w.Note, "group is not in force: no such group") {
			t.Errorf("%+v", w)
		}
	})
}

func TestGroupsNeedASchedulerThatHasThem(t *testing.T) {
	inBubble(t, "links: [{device: eth0, egress: 100mbit, scheduler: qcon}]", func(t *testing.T, h *host) {
		h.start()
		_, err := h.SetGroup(t.Context(), "tenant", api.GroupChange{}, false)
		refused(t, err, refusal.Invalid, "scheduler qcon", "has no groups", "fair")
	})
}

// The division, the traffic and the explanation at both levels.
func TestGroupTraffic(t *testing.T) {
	inBubble(t, "labels: {allow: [weight, min, group]}", func(t *testing.T, h *host) {
		h.start()
		h.run("a", "weir.group=g")
		h.run("b", "weir.group=g", "weir.weight=3")
		h.run("c")
		h.setGroup("g", "")
		classes := map[string]plan.ClassID{}
		for _, name := range []string{"a", "b", "c"} {
			classes[name] = plan.ClassID(h.workload(name).Class)
		}
		for range 2 {
			h.kernel.Send("eth0", classes["a"], fake.ClassTraffic{Bytes: 12.5e6 / 8, Backlog: 5})
			h.kernel.Send("eth0", classes["b"], fake.ClassTraffic{Bytes: 37.5e6 / 8, Backlog: 5, Drops: 2})
			h.kernel.Send("eth0", classes["c"], fake.ClassTraffic{Bytes: 50e6 / 8, Backlog: 5})
			seconds(1)
		}
		groups, _ := h.Groups(context.Background())
		if l := groups[0].Links[0]; l.RateBps != 50e6 || l.IdealBps != 50e6 || l.BacklogPackets != 10 || l.Drops["class_packets"] != 4 {
			t.Errorf("group %+v", l)
		}
		if l := h.workload("b").Links[0]; l.IdealBps != 37.5e6 {
			t.Errorf("ideal of b is %v", l.IdealBps)
		}
		status, _ := h.Status(t.Context())
		if l := status.Links[0]; l.RateBps != 100e6 || l.Workloads != 3 || len(status.Groups) != 1 {
			t.Errorf("status %+v", status)
		}
		e, err := h.Explain(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		const want = `Group g gets 50 Mbit/s of 100 Mbit/s: 100 Mbit/s is shared by weight among 2, and its weight is 1 of 2.
a gets 12.5 Mbit/s of the 50 Mbit/s of group g: 50 Mbit/s is shared by weight among 2, and its weight is 1 of 4.
How long its packets wait is not measured there.`
		l := e.Links[0]
		if got := strings.Join(l.Text, "\n"); got != want {
			t.Errorf("explained as\n%s\nwant\n%s", got, want)
		}
		if l.LevelBps != 12.5e6 || l.Group == nil || l.Group.LevelBps != 50e6 || l.Group.Binds != "share" || l.Group.IdealBps != 50e6 {
			t.Errorf("levels %+v, %+v", l, l.Group)
		}
	})
}

// A group is explained: what it was promised, who its members are, what it gets and
// why, and what its members get of that.
func TestExplainGroup(t *testing.T) {
	inBubble(t, "groups: {office: {weight: 2, max: 40mbit}, empty: {}}\nworkloads: {web: {group: office, min: 20mbit}, cam: {group: office}}", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.run("cam")
		h.run("other")
		for range 3 { // all want all they can get
			for _, name := range []string{"web", "cam", "other"} {
				h.kernel.Send("eth0", plan.ClassID(h.workload(name).Class), fake.ClassTraffic{Bytes: 20e6 / 8, Backlog: 100})
			}
			seconds(1)
		}
		e, err := h.ExplainGroup(t.Context(), "office")
		if err != nil || len(e.Links) != 1 || e.Name != "group office" {
			t.Fatalf("%+v, %v", e, err)
		}
		l := e.Links[0]
		for i, want := range []string{
			"Group office has weight 2, no min of its own (those of its members come to 20 Mbit/s) and a max of 40 Mbit/s.",
			"Its members are cam and web.",
			"Group office gets 40 Mbit/s of 100 Mbit/s: its max is 40 Mbit/s; without it, it would get 66.7 Mbit/s.",
		} {
			if i >= len(l.Text) || l.Text[i] != want {
				t.Errorf("%q does not say %q", l.Text, want)
			}
		}
		if l.Binds != "max" || len(l.Members) != 2 || l.Members[0].Name != "web" || l.Members[1].Name != "cam" || l.Members[1].Binds != "share" || len(l.Others) != 1 || l.Others[0].Name != "other" {
			t.Errorf("%+v", l)
		}
		e, _ = h.ExplainGroup(t.Context(), "empty")
		if text := strings.Join(e.Links[0].Text, "\n"); !strings.Contains(text, "weight 1, no min and no max") || !strings.Contains(text, "weir set NAME --group empty") {
			t.Errorf("%q", text)
		}
		_, err = h.ExplainGroup(t.Context(), "offise")
		refused(t, err, refusal.Unknown, "offise", "did you mean office?")
		if g, err := h.Group(t.Context(), "office"); err != nil || !reflect.DeepEqual(g.Members, []string{"cam", "web"}) {
			t.Errorf("%+v, %v", g, err)
		}
	})
	inFallback(t, "groups: {office: {weight: 2}}\nworkloads: {web: {group: office}}", func(t *testing.T, h *host) {
		h.run("web")
		seconds(1)
		e, _ := h.ExplainGroup(t.Context(), "office")
		const want = "Group office has weight 2, no min and no max.\nIts only member is web.\nThe group has no effect on this link: its members count for themselves.\nGroup office is not held here: " + noGroups + "."
		if text := strings.Join(e.Links[0].Text, "\n"); text != want {
			t.Errorf("%s", text)
		}
	})
}
