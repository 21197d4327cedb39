// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
	"weir/internal/host/discover"
)

// happening is something that happens to a host.
type happening struct {
	verb    string // run, kill, rename, set, attach, detach, group, ungroup, join, reload, restart, fail, heal
	name    string
	to      string
	labels  []string
	fields  string
	reserve int
}

var names = []string{"a", "b", "c", "d", "e"}

// events are drawn before the bubble is entered, since what draws must not
// leave its goroutine.
func events(t *rapid.T) []happening {
	amount := rapid.SampledFrom([]string{"1mbit", "10mbit", "30mbit", "60mbit", "20%", "90%"})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) happening {
		e := happening{
			verb:    rapid.SampledFrom([]string{"run", "run", "kill", "rename", "set", "set", "set", "attach", "detach", "group", "group", "ungroup", "join", "join", "join", "reload", "restart", "fail", "heal"}).Draw(t, "verb"),
			name:    rapid.SampledFrom(names).Draw(t, "name"),
			to:      rapid.SampledFrom(names).Draw(t, "to"),
			reserve: rapid.IntRange(1, 100).Draw(t, "reserve"),
		}
		for _, field := range []string{"min", "max"} {
			if rapid.Bool().Draw(t, field) {
				value := amount.Draw(t, "amount")
				e.labels = append(e.labels, "weir."+field+"="+value)
				e.fields += " " + field + "=" + value
			}
		}
		if rapid.Bool().Draw(t, "weighted") {
			e.fields += fmt.Sprintf(" weight=%d", rapid.IntRange(1, 10).Draw(t, "weight"))
		}
		if rapid.IntRange(0, 4).Draw(t, "reset") == 0 {
			e.fields += " reset"
		}
		return e
	}), 1, 25).Draw(t, "events")
}

// TestAnySequence: whatever happens in whatever order, the kernel has in the end
// what plan.Build makes of the present inputs; on the way no min in force is lost
// to another workload, and no refused request leaves a trace.
func TestAnySequence(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := events(rt)
		var problem error
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, "links: [{device: eth0, egress: 100mbit}, {device: eth1, egress: 50mbit, reservable: 50%}]")
			h.load = func() (config.Config, error) { return h.config, nil }
			h.start()
			for i, e := range list {
				if problem = h.play(e); problem != nil {
					problem = fmt.Errorf("event %d, %+v: %w", i, e, problem)
					break
				}
			}
			h.kernel.FailSet("eth0", nil)
			seconds(60) // workloads that are away are given up
			if problem == nil {
				problem = h.consistent()
			}
			h.stop()
		})
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}

// play makes an event happen and checks what must hold after each.
func (h *host) play(e happening) error {
	before, refusable := h.wanted(), false
	held := h.mins()
	var err error
	switch e.verb {
	case "run":
		h.run(e.name, e.labels...)
	case "kill":
		h.kill(e.name)
	case "rename":
		h.rename(e.name, e.to)
	case "set":
		refusable = true
		_, err = h.Set(h.t.Context(), e.name, change(e.fields), false)
	case "attach":
		refusable = true
		_, err = h.Attach(h.t.Context(), api.AttachRequest{Name: "n" + e.name, Netns: e.name, Policy: change(e.fields)}, false)
	case "detach":
		refusable = true
		_, err = h.Detach(h.t.Context(), "n"+e.name, false)
	case "group":
		refusable = true
		_, err = h.SetGroup(h.t.Context(), "g"+e.to, groupChange(e.fields), false)
	case "ungroup":
		refusable = true
		_, err = h.DeleteGroup(h.t.Context(), "g"+e.to, false)
	case "join":
		refusable = true
		group := "g" + e.to
		if e.reserve < 20 {
			group = "none"
		}
		_, err = h.Set(h.t.Context(), e.name, change(e.fields+" group="+group), false)
	case "reload":
		h.config = parse(h.t, fmt.Sprintf("links: [{device: eth0, egress: 100mbit, reservable: %d%%}, {device: eth1, egress: 50mbit}]", e.reserve))
		if err := h.Reload(h.t.Context(), "test"); err != nil {
			return err
		}
	case "restart":
		h.stop()
		h.start()
	case "fail":
		h.kernel.FailSet("eth0", fmt.Errorf("no memory"))
	case "heal":
		h.kernel.FailSet("eth0", nil)
	}
	synctest.Wait()
	if after := h.wanted(); refusable && err != nil && after != before && !strings.Contains(err.Error(), "no memory") {
		return fmt.Errorf("refused with %w, but changed\n%sto\n%s", err, before, after)
	}
	if e.verb == "reload" { // which may take capacity away
		return h.within()
	}
	now := h.mins()
	for who, min := range held {
		subject := who.name == e.name || who.name == e.to || who.name == "n"+e.name
		if _, present := now[who]; present && !subject && now[who] < min {
			return fmt.Errorf("%s lost its min of %v", who.name, min)
		}
	}
	return h.within()
}

// wanted is what the kernel is to have; it may not have it yet if it has refused.
func (h *host) wanted() string {
	var text string
	_ = h.do(h.t.Context(), func() {
		for _, device := range slices.Sorted(maps.Keys(h.decided.Plans)) {
			text += render(h.decided.Plans[device])
		}
	})
	return text
}

// holder is a workload on a link.
type holder struct{ device, name string }

// mins are those that are to be in force, 0 for who has none.
func (h *host) mins() map[holder]policy.Rate {
	mins := map[holder]policy.Rate{}
	_ = h.do(h.t.Context(), func() {
		for device, s := range h.decided.Plans {
			for _, c := range s.Classes {
				if !c.Group { // what it reserves follows from its members
					mins[holder{device, c.Name}] = c.Min
				}
			}
		}
	})
	return mins
}

// rename moves a container to another name if that is free.
func (h *host) rename(from, to string) {
	h.docker.change(func(list map[string]discover.Workload) {
		w, ok := list["docker:"+from]
		if _, taken := list["docker:"+to]; !ok || taken {
			return
		}
		delete(list, w.Key)
		w.Key, w.Name = "docker:"+to, to
		list[w.Key] = w
	})
	synctest.Wait()
}

// within checks that no link promises more than it has.
func (h *host) within() error {
	for _, device := range []string{"eth0", "eth1"} {
		s := h.kernel.State(device)
		if limit := s.Link.Admission().Limit(); s.Reserved() > limit {
			return fmt.Errorf("%s reserves %v of %v", device, s.Reserved(), limit)
		}
		members := map[plan.ClassID][]plan.Class{}
		for _, class := range s.Classes {
			if class.Parent != 0 {
				members[class.Parent] = append(members[class.Parent], class)
			}
		}
		for id, members := range members {
			group, _ := s.Class(id)
			var held policy.Rate
			for _, m := range members {
				held += m.Min
			}
			if !group.Group || held > group.Min || group.Max != 0 && group.Min > group.Max {
				return fmt.Errorf("%s: members of %+v hold %v", device, group, held)
			}
		}
	}
	return nil
}

// consistent compares the kernel with what follows from the present inputs by
// way of plan.Build alone: of all that asked, those with a grant first.
func (h *host) consistent() error {
	var problem error
	down := h.do(h.t.Context(), func() {
		for _, l := range h.decided.World.Config.Links {
			var list []plan.Workload
			granted := func(key string) int {
				i := slices.IndexFunc(h.decided.World.Grants[l.Device], func(g decide.AdmittedMin) bool { return g.Key == key })
				if i < 0 {
					return 1 << 20
				}
				return i
			}
			for _, w := range append(h.found(), discover.Workload{Key: plan.HostKey, Name: config.HostName}) {
				p := h.decided.World.Set[w.Key].Apply(asked(w.Labels).Apply(policy.Default()))
				list = append(list, plan.Workload{Key: w.Key, Name: w.Name, Policy: p, Ports: portsOf(w)})
			}
			for _, name := range h.decided.World.GroupNames() {
				p := h.decided.World.Groups[name].Apply(policy.Default())
				list = append(list, plan.Workload{Key: plan.GroupKey(name), Name: name, Policy: p, Group: true})
			}
			slices.SortStableFunc(list, func(a, b plan.Workload) int { return granted(a.Key) - granted(b.Key) })
			want, _, err := plan.Build(l.Plan(), list, h.decided.World.Number)
			if err != nil {
				problem = err
			} else if got := h.kernel.State(l.Device); len(plan.Diff(got, want)) > 0 {
				problem = fmt.Errorf("%s has\n%swant\n%s", l.Device, render(got), render(want))
			}
		}
	})
	if down != nil {
		return down
	}
	return problem
}

// asked is what labels ask for.
func asked(labels map[string]string) policy.Change {
	var pairs []string
	for label, value := range labels {
		if field, ok := strings.CutPrefix(label, "weir."); ok {
			pairs = append(pairs, field, value)
		}
	}
	return policy.MustChange(pairs...)
}

// portsOf are a workload's devices as ports.
func portsOf(w discover.Workload) []plan.Port {
	var ports []plan.Port
	for _, d := range w.Devices {
		ports = append(ports, plan.Port{Device: d.Name, Ifindex: d.Ifindex})
	}
	return ports
}

// found is what runs, by the sources' own lists.
func (h *host) found() []discover.Workload {
	var all []discover.Workload
	for _, s := range []*script{h.docker, h.netns} {
		s.mu.Lock()
		all = append(all, slices.Collect(maps.Values(s.list))...)
		s.mu.Unlock()
	}
	return all
}

// FuzzState: no state file keeps an agent from starting.
func FuzzState(f *testing.F) {
	f.Add(`{"version": 1, "set": {"docker:web": {"weight": 3, "min": "20%"}}, "numbers": {"a": 1, "b": 1}, "grants": {"eth0": [{"key": "a", "min_bps": 1}]}}`)
	f.Add(`{"version": 1, "seen": {"docker": [{"key": "host", "devices": [{"ifindex": -1}]}]}, "attached": [{"name": "x"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse("", []byte("links: [{device: eth0, egress: 100mbit}]"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := New(Options{Config: c, StateDir: dir, Sources: []discover.Source{newScript("docker")}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := a.decided.Plans["eth0"]; !ok || s.Reserved() > s.Link.Capacity {
			t.Errorf("plan %+v", s)
		}
	})
}
