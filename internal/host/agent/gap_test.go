// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/config"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/refusal"
	"weir/internal/core/workload"
	"weir/internal/host/dataplane"
)

// fallback has the abilities of HTB with fq_codel leaves.
var fallback = dataplane.Abilities{NoGroups: true, OneQueue: true, Discipline: discipline.SFQ,
	AQM:       discipline.AQM{Target: discipline.DefaultTarget, Interval: discipline.DefaultInterval},
	Scheduler: "htb", NoNegativeOverhead: true, NoByteLimit: true}

// inFallback runs a test on a kernel whose backend has the fallback's abilities.
func inFallback(t *testing.T, config string, test func(t *testing.T, h *host)) {
	t.Helper()
	inBubble(t, config, func(t *testing.T, h *host) {
		h.kernel.Lack(fallback)
		h.start()
		test(t, h)
	})
}

// kept is what the agent keeps on the disk.
func (h *host) kept() string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "state.json"))
	if err != nil {
		h.t.Fatal(err)
	}
	return string(text)
}

// pbx is a discipline with queues.
func pbx(accept bool) api.PolicyChange {
	return apitest.Accepting(apitest.Change("discipline", "llq", "queues", "{voice: {rate: 1mbit, match: [{udp: 5001}]}, rest: {}}"), accept)
}

// What the backend does not hold is refused wherever it is asked for, and nothing is
// stored; with AcceptGaps it is taken.
func TestGapsAreRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		ask   func(h *host, accept, dryRun bool) error
		words []string
	}{
		{"discipline", func(h *host, accept, dryRun bool) error {
			_, err := h.Set(h.t.Context(), "web", pbx(accept), dryRun)
			return err
		}, []string{"discipline", "llq", "eth0", "one queue", "--accept-gaps", "6.16"}},
		{"fifo", func(h *host, accept, dryRun bool) error {
			_, err := h.Set(h.t.Context(), "web", apitest.Accepting(apitest.Change("discipline", "fifo"), accept), dryRun)
			return err
		}, []string{"discipline", "fifo", "sfq"}},
		{"isolation", func(h *host, accept, dryRun bool) error {
			_, err := h.Set(h.t.Context(), "web", apitest.Accepting(apitest.Change("isolation", "srchost"), accept), dryRun)
			return err
		}, []string{"isolation", "srchost", "connections"}},
		{"aqm", func(h *host, accept, dryRun bool) error {
			_, err := h.Set(h.t.Context(), "web", apitest.Accepting(apitest.Change("aqm", "2ms/50ms"), accept), dryRun)
			return err
		}, []string{"aqm", "2ms/50ms", "5ms/100ms"}},
		{"limit in bytes", func(h *host, accept, dryRun bool) error {
			_, err := h.Set(h.t.Context(), "web", apitest.Accepting(apitest.Change("limit_bytes", "30000"), accept), dryRun)
			return err
		}, []string{"limit_bytes", "30000", "counts packets", "limit_packets"}},
		{"group", func(h *host, accept, dryRun bool) error {
			_, err := h.SetGroup(h.t.Context(), "tenant", api.GroupChange{PolicyChange: apitest.Accepting(apitest.Change("max", "40mbit"), accept)}, dryRun)
			return err
		}, []string{"group", "tenant", "counts for itself"}},
		{"place in a group", func(h *host, accept, dryRun bool) error {
			_, err := h.Set(h.t.Context(), "web", apitest.Accepting(apitest.Change("group", "office"), accept), dryRun)
			return err
		}, []string{"group", "office", "counts for itself"}},
		{"attach", func(h *host, accept, dryRun bool) error {
			_, err := h.Attach(h.t.Context(), api.AttachRequest{Name: "lab", Netns: "lab", Policy: pbx(accept)}, dryRun)
			return err
		}, []string{"discipline", "llq"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inFallback(t, "groups: {office: {}}", func(t *testing.T, h *host) {
				h.run("web")
				before, plan := h.kept(), h.state("eth0")
				for _, dryRun := range []bool{true, false} {
					refused(t, test.ask(h, false, dryRun), refusal.NotHeld, test.words...)
				}
				if h.kept() != before || h.state("eth0") != plan {
					t.Errorf("stored all the same:\n%s\n%s", h.kept(), h.state("eth0"))
				}
				if err := test.ask(h, true, false); err != nil {
					t.Fatalf("with AcceptGaps: %v", err)
				}
				status, _ := h.Status(t.Context())
				if !slices.Equal(status.NotHeld, []string{"office"}) { // in weir.yaml from the start, without accept_gaps
					t.Errorf("not held %v", status.NotHeld)
				}
			})
		})
	}
}

// What the backend holds is not refused: its own discipline, the default, taking away.
func TestWhatIsNoGap(t *testing.T) {
	inFallback(t, "", func(t *testing.T, h *host) {
		h.run("web")
		for _, c := range []api.PolicyChange{
			apitest.Change("discipline", "sfq"), apitest.Change("aqm", "5ms/100ms"), apitest.Change("aqm", "on"), apitest.Change("aqm", "default"), apitest.Change("group", "none"),
			apitest.Change("limit_packets", "100"), apitest.Change("limit_bytes", "0"), apitest.Change("dscp", "ef"), apitest.Change("reserve", "10mbit"),
			{Options: api.Options{Reset: true}},
		} {
			if _, err := h.Set(t.Context(), "web", c, false); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
		if w := h.workload("web"); w.State != workload.StateActive || w.Note != "" {
			t.Errorf("%s, %s", w.State, w.Note)
		}
	})
}

// Without --accept-gaps again, the same request is refused again; a change of
// something else is not.
func TestAcceptedGap(t *testing.T) {
	inFallback(t, "", func(t *testing.T, h *host) {
		h.run("pbx")
		if _, err := h.Set(t.Context(), "pbx", pbx(true), false); err != nil {
			t.Fatal(err)
		}
		h.set("pbx", "weight=3")
		_, err := h.Set(t.Context(), "pbx", apitest.Change("discipline", "pq", "queues", "{a: {match: [{udp: 1}]}, b: {}}"), false)
		refused(t, err, refusal.NotHeld, "discipline", "pq")
		const note = "link eth0: discipline llq is not held: HTB has one queue for each workload, with discipline sfq and no rules (accepted)"
		for range 2 { // also after a restart
			w := h.workload("pbx")
			if w.State != workload.StateNotHeld || w.Note != note || len(w.NotHeld) != 1 || !w.NotHeld[0].Accepted || w.NotHeld[0].Field != "discipline" {
				t.Errorf("%s, %q, %+v", w.State, w.Note, w.NotHeld)
			}
			if status, _ := h.Status(t.Context()); len(status.NotHeld) > 0 {
				t.Errorf("accepted, and a problem: %v", status.NotHeld)
			}
			e, err := h.Explain(t.Context(), "pbx")
			if err != nil || !strings.Contains(strings.Join(e.Links[0].Text, "\n"), "Discipline llq is not held here: HTB has one queue") {
				t.Errorf("explained %+v, %v", e, err)
			}
			place, err := h.Classify(t.Context(), "pbx", api.Packet{Proto: "udp", Dport: 5001})
			if err != nil || !strings.Contains(place.Text, "discipline llq is not held there") {
				t.Errorf("classified %+v, %v", place, err)
			}
			h.stop()
			h.start()
		}
		h.set("pbx", "reset")
		if w := h.workload("pbx"); w.State != workload.StateActive {
			t.Errorf("after --reset %s, %s", w.State, w.Note)
		}
		if strings.Contains(h.kept(), "accepted_gaps") {
			t.Errorf("an acceptance is kept:\n%s", h.kept())
		}
	})
}

// noGroups is why the fallback does not hold a group.
const noGroups = "HTB has no groups: each member counts for itself, with its own weight, min and max"

// What was accepted on one kernel and is not held on the next is shown as not held,
// everywhere, and comes into force again on a kernel that holds it.
func TestNotHeldOnTheNextKernel(t *testing.T) {
	inBubble(t, "groups: {office: {weight: 3, max: 50%}}\nworkloads: {cam: {group: office}}", func(t *testing.T, h *host) {
		h.start()
		h.run("cam")
		h.run("web")
		h.join("web", "office")
		h.run("pbx")
		if _, err := h.Set(t.Context(), "pbx", pbx(false), false); err != nil {
			t.Fatal(err)
		}
		const held = `
			1 office group weight 3 min 0 bit/s max 50 Mbit/s
			2 cam in 1 min 0 bit/s
			3 web in 1 min 0 bit/s`
		h.expectGroups("on the first kernel", held)
		h.stop()
		h.kernel.Lack(fallback)
		h.start()
		h.expectGroups("on the fallback", "")
		status, err := h.Status(t.Context())
		if err != nil || !slices.Equal(status.NotHeld, []string{"cam", "pbx", "web", "office"}) {
			t.Errorf("not held: %v, %v", status.NotHeld, err)
		}
		if problems := status.Problems; len(problems) != 1 || !strings.Contains(problems[0].Text, "cam, pbx, web and 1 more: a part of the policy is not held") {
			t.Errorf("problems %q", problems)
		}
		web := h.workload("web")
		if web.State != workload.StateNotHeld || web.Note != "link eth0: group office is not held: "+noGroups || web.Policy.Group != "office" {
			t.Errorf("web: %s, %s, %+v", web.State, web.Note, web.Policy)
		}
		groups, _ := h.Groups(t.Context())
		if len(groups) != 1 || groups[0].State != workload.StateNotHeld || !slices.Equal(groups[0].Members, []string{"cam", "web"}) {
			t.Errorf("group %+v", groups)
		}
		if e, _ := h.Explain(t.Context(), "web"); e.Links[0].Group != nil || !strings.Contains(strings.Join(e.Links[0].Text, "\n"), "Group office is not held here") {
			t.Errorf("explained %+v", e)
		}
		if !strings.Contains(h.log.String(), "workload does not have all that was asked for it\" workload=web state=\"not held\"") {
			t.Errorf("not in the log:\n%s", h.log.String())
		}
		h.stop()
		h.kernel.Lack(dataplane.Abilities{})
		h.start()
		h.expectGroups("on the first kernel again", held)
		if status, _ := h.Status(t.Context()); len(status.NotHeld) > 0 || h.workload("web").State != workload.StateActive {
			t.Errorf("still not held: %v", status.NotHeld)
		}
	})
}

// A label that asks for what the backend does not hold is shown as such, and the
// administrator may accept it for all.
func TestLabelGap(t *testing.T) {
	for _, accept := range []bool{false, true} {
		text := ""
		if accept {
			text = "accept_gaps: true"
		}
		inFallback(t, text, func(t *testing.T, h *host) {
			h.run("web", "weir.discipline=fifo", "weir.weight=3")
			w := h.workload("web")
			if w.State != workload.StateNotHeld || !strings.Contains(w.Note, "discipline fifo is not held") || w.NotHeld[0].Accepted != accept {
				t.Errorf("%s, %s, %+v", w.State, w.Note, w.NotHeld)
			}
			h.expect("the rest counts", "eth0", "0 host weight 1\n1 web weight 3: vethweb")
			if status, _ := h.Status(t.Context()); len(status.NotHeld) > 0 == accept {
				t.Errorf("accepted %t, not held %v", accept, status.NotHeld)
			}
		})
	}
}

// A configuration that adds what the backend does not hold is refused when it is read
// again; one that was there when the agent started is shown, and may be changed
// elsewhere.
func TestReloadWithGaps(t *testing.T) {
	const former = "groups: {office: {}}\n"
	inFallback(t, former, func(t *testing.T, h *host) {
		h.run("web")
		reload := func(text string) error {
			next := parse(t, text)
			next.Path = "weir.yaml"
			h.opts.Load = func() (config.Config, error) { return next, nil }
			return h.Reload(t.Context(), "test")
		}
		for text, words := range map[string][]string{
			former + "workloads: {web: {discipline: fifo}}":         {"weir.yaml", "workloads", "web", "discipline fifo", "accept_gaps"},
			former + "workloads: {\"w*\": {aqm: off}}":              {"web", "aqm off"},
			"groups: {office: {}, tenant: {max: 40%}}":              {"groups", "tenant", "counts for itself"},
			former + "defaults: {discipline: fifo}":                 {"web", "discipline fifo"},
			former + "workloads: {web: {weight: 4, group: office}}": {"web", "group office"},
		} {
			err := reload(text)
			for _, word := range words {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("%s: %v does not say %q", text, err, word)
				}
			}
			if status, _ := h.Status(t.Context()); status.ConfigError == "" {
				t.Errorf("%s: not in the status", text)
			}
			h.expect("after "+text, "eth0", "0 host weight 1\n2 web weight 1: vethweb")
		}
		if err := reload(former + "workloads: {web: {weight: 4}}"); err != nil {
			t.Errorf("what was not held before is in the way: %v", err)
		}
		if err := reload(former + "accept_gaps: true\nworkloads: {web: {discipline: fifo}}"); err != nil {
			t.Errorf("accepted: %v", err)
		}
		if status, _ := h.Status(t.Context()); status.ConfigError != "" || len(status.NotHeld) > 0 {
			t.Errorf("%q, %v", status.ConfigError, status.NotHeld)
		}
	})
}

// A link that is not steered holds nothing, and its workloads say so.
func TestLostLinkIsNotHeld(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.min=20mbit")
		h.kernel.RemoveDevice("eth0")
		seconds(2)
		w := h.workload("web")
		if w.State != workload.StateNotHeld || !strings.Contains(w.Note, "link eth0 is not steered") || !strings.Contains(w.Note, "no such network device") {
			t.Errorf("%s, %s", w.State, w.Note)
		}
		h.kernel.AddDevice("eth0")
		seconds(40)
		if w := h.workload("web"); w.State != workload.StateActive || w.Note != "" {
			t.Errorf("after it has come back: %s, %s", w.State, w.Note)
		}
	})
}

// A link that asks for what its backend does not hold is steered all the same when
// the agent starts with it, as far as the backend can, and shown as not held.
func TestStartWithLinkGaps(t *testing.T) {
	const text = "links: [{device: eth0, egress: 100mbit, scheduler: qcon, overhead: -4}]"
	for _, accept := range []bool{false, true} {
		inBubble(t, text+fmt.Sprintf("\naccept_gaps: %t", accept), func(t *testing.T, h *host) {
			h.kernel.Lack(fallback)
			h.start()
			h.run("web", "weir.weight=3")
			h.expect("shared all the same", "eth0", "0 host weight 1\n1 web weight 3: vethweb")
			if l := h.kernel.State("eth0").Link; l.Scheduler != "fair" || l.Overhead() != 0 {
				t.Errorf("the backend is told %+v, which it does not hold", l)
			}
			status, err := h.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l := status.Links[0]
			if l.Scheduler != "htb" || len(l.NotHeld) != 2 || l.NotHeld[0].Field != "scheduler" || l.NotHeld[0].Value != "qcon" ||
				l.NotHeld[1].Field != "overhead" || l.NotHeld[1].Value != "-4" || l.NotHeld[0].Accepted != accept {
				t.Errorf("link %+v", l)
			}
			problems := said(status.Problems)
			if accept != (problems == "") || !accept && !strings.Contains(problems, "link eth0: scheduler qcon is not held on this kernel: HTB") {
				t.Errorf("accepted %t, problems %q", accept, problems)
			}
			if e, err := h.Explain(t.Context(), "web"); err != nil || !strings.Contains(strings.Join(e.Links[0].Text, "\n"), "Scheduler qcon is not held here: HTB") {
				t.Errorf("explained %+v, %v", e, err)
			}
			if said := strings.Count(h.log.String(), "scheduler qcon"); said != 1 {
				t.Errorf("said %d times in the log:\n%s", said, h.log.String())
			}
			h.stop()
			h.kernel.Lack(dataplane.Abilities{})
			h.start()
			if l := h.kernel.State("eth0").Link; l.Scheduler != "qcon" || l.Overhead() != -4 {
				t.Errorf("on a kernel that holds it %+v", l)
			}
			if status, _ := h.Status(t.Context()); len(status.Links[0].NotHeld) > 0 || status.Links[0].Scheduler != "qcon" || len(status.Problems) > 0 {
				t.Errorf("on a kernel that holds it %+v, %q", status.Links[0], status.Problems)
			}
		})
	}
}

// A reload that asks a link for what its backend does not hold is refused, also of a
// link that is new; what the agent was started with does not stop a reload.
func TestReloadWithLinkGaps(t *testing.T) {
	const eth0 = "{device: eth0, egress: 100mbit"
	for _, test := range []struct {
		name, before, after string
		words               []string // none: it is taken
	}{
		{"scheduler", eth0 + "}", eth0 + ", scheduler: ancs}", []string{"weir.yaml", "links: eth0", "scheduler ancs", "HTB", "6.16", "accept_gaps"}},
		{"overhead", eth0 + "}", eth0 + ", overhead: -4}", []string{"links: eth0", "overhead -4", "HTB"}},
		{"another", eth0 + ", scheduler: qcon}", eth0 + ", scheduler: ancs}", []string{"scheduler ancs"}},
		{"new link", eth0 + "}", eth0 + "}, {device: eth1, egress: 10mbit, scheduler: qcon}", []string{"links: eth1", "scheduler qcon"}},
		{"both directions", eth0 + "}", eth0 + ", ingress: 50mbit, scheduler: qcon}", []string{"links: eth0", "scheduler qcon"}},
		{"positive overhead", eth0 + "}", eth0 + ", overhead: ethernet}", nil},
		{"there before", eth0 + ", scheduler: qcon}", eth0 + ", scheduler: qcon}, {device: eth1, egress: 10mbit}", nil},
		{"taken away", eth0 + ", scheduler: qcon}", eth0 + "}", nil},
		{"accepted", eth0 + "}", eth0 + ", scheduler: qcon}]\naccept_gaps: true #", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, "links: ["+test.before+"]", func(t *testing.T, h *host) {
				h.kernel.Lack(fallback)
				h.start()
				before := h.kernel.State("eth0").Link
				next := parse(t, "links: ["+test.after+"]")
				next.Path = "weir.yaml"
				h.opts.Load = func() (config.Config, error) { return next, nil }
				err := h.Reload(t.Context(), "test")
				if len(test.words) == 0 {
					if err != nil {
						t.Errorf("refused: %v", err)
					}
					return
				}
				for _, word := range test.words {
					if err == nil || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
						t.Errorf("%v does not say %q in one line", err, word)
					}
				}
				if l := h.kernel.State("eth0").Link; l != before {
					t.Errorf("changed all the same: %+v", l)
				}
			})
		})
	}
}

// A change that is taken and that no kernel hears of is not called none.
func TestAcceptedGapIsStored(t *testing.T) {
	inFallback(t, "", func(t *testing.T, h *host) {
		h.run("web")
		for _, test := range []struct {
			name string
			ask  func(dryRun bool) (api.ChangeResult, error)
			want map[string]string
		}{
			{"a new group", func(dryRun bool) (api.ChangeResult, error) {
				return h.SetGroup(t.Context(), "office", api.GroupChange{PolicyChange: apitest.Accepting(apitest.Change("max", "40mbit"), true)}, dryRun)
			}, map[string]string{"max": "40mbit"}},
			{"a group's weight", func(dryRun bool) (api.ChangeResult, error) {
				return h.SetGroup(t.Context(), "office", api.GroupChange{PolicyChange: apitest.Accepting(apitest.Change("weight", "2"), true)}, dryRun)
			}, map[string]string{"weight": "2"}},
			{"a group without a setting", func(dryRun bool) (api.ChangeResult, error) {
				return h.SetGroup(t.Context(), "empty", api.GroupChange{PolicyChange: apitest.Accepting(apitest.Change(), true)}, dryRun)
			}, map[string]string{"group": "empty"}},
			{"a place in a group", func(dryRun bool) (api.ChangeResult, error) {
				return h.Set(t.Context(), "web", apitest.Accepting(apitest.Change("group", "office", "weight", "3"), true), dryRun)
			}, map[string]string{"group": "office"}},
		} {
			for _, dryRun := range []bool{true, false} {
				r, err := test.ask(dryRun)
				if err != nil || !maps.Equal(r.NotHeld, test.want) {
					t.Errorf("%s: not held %v, %v; want %v", test.name, r.NotHeld, err, test.want)
				}
			}
			if r, _ := test.ask(false); len(r.NotHeld) > 0 {
				t.Errorf("%s again: not held %v", test.name, r.NotHeld)
			}
		}
	})
}
