// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/goldentest"
	"weir/internal/policy"
)

func TestRenderings(t *testing.T) {
	fake := apitest.New(apitest.Demo()...)
	status, err := fake.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	status.Problems = status.Assess()
	troubled := status
	troubled.Config = ""
	troubled.Links = []api.LinkStatus{
		{Device: "eth0", Direction: "egress", Backend: "tc", Scheduler: "htb", CapacityBps: 100e6, Reservable: 1, FreeBps: 100e6,
			NotHeld: []api.PolicyGap{{Device: "eth0", Direction: "egress", Field: "scheduler", Value: "qcon", Reason: "HTB schedules in its place"}}},
		{Device: "eth1", Direction: "egress", Backend: "tc", Scheduler: "htb", CapacityBps: 100e6, Reservable: 1, FreeBps: 100e6,
			NotHeld: []api.PolicyGap{{Device: "eth1", Direction: "egress", Field: "overhead", Value: "-4", Reason: "HTB counts 0", Accepted: true}}},
		{Device: "wan0", Direction: "egress", Backend: "none", Scheduler: "fair", CapacityBps: 25e9, Reservable: 0.75,
			FreeBps: 18.75e9, Error: "wan0: no such network device; it is taken over as soon as it appears"},
	}
	const overlap = `queues.b "{udp: 5-20}": {udp: 1-10} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`
	troubled.Warnings = []string{"/etc/weir/weir.yaml:7:5: workloads.web." + strings.Replace(overlap, " ", ": ", 1), "cam: " + overlap}
	troubled.ConfigError = "weir.yaml:1:1: wrong\nweir.yaml:2:2: worse"
	troubled.Refused = []string{"a", "b", "c", "d"}
	troubled.Problems = troubled.Assess()
	demo := apitest.Demo()
	changed := apitest.Demo()[1]
	changed.Warnings = []string{overlap}
	explanation := api.Explanation{Name: "web", Warnings: []string{overlap}, Links: []api.ExplainLink{
		{Device: "eth0", Direction: "egress", Binds: "min", LevelBps: 14e6, FairBps: 14e6, IdealBps: 30e6, RateBps: 29.9e6,
			Text:   []string{"web gets its min: its fair share would be 14 Mbit/s."},
			Others: []api.Other{{Name: "batch", RateBps: 28.1e6, Weight: 2, Binds: "share"}, {Name: "cam", RateBps: 9.9e6, Weight: 1, Binds: "max"}, {Name: "ntp", RateBps: 900, Weight: 1, Binds: "demand"}}},
		{Device: "wan0", Direction: "egress", Binds: "idle", Text: []string{"web sends nothing here."}},
	}}
	set := apitest.Demo()[2]
	set.Policy.LimitPackets, set.Policy.LimitBytes = 500, 1_500_000
	set.Policy.Min, set.Links[0].MinBps = policy.Amount{Percent: 12.5}, 12.5e6
	set.Note, set.Warnings = "min was refused at first", []string{overlap}
	for name, text := range map[string]string{
		"status":          renderStatus(status, false, apitest.Start.Add(3*time.Hour+25*time.Minute)),
		"status-troubled": renderStatus(troubled, true, apitest.Start.Add(45*time.Second)),
		"status-no-link":  renderStatus(api.Status{Version: "1.2.3", Started: apitest.Start, Problems: api.Status{}.Assess()}, false, apitest.Start.Add(50*time.Hour)),
		"get":             renderWorkloads(apitest.Demo(), nil),
		"get-none":        renderWorkloads(nil, nil),
		"get-one":         renderWorkload(set),
		"get-waiting":     renderWorkload(apitest.Demo()[4]),
		"explain":         renderExplanation(explanation),
		"cleanup-nothing": renderCleanup(api.ChangeResult{}),
		"change-nothing":  renderChange(api.ChangeResult{DryRun: true}) + renderChange(api.ChangeResult{Workload: &demo[1]}),
		"change-stored": renderChange(api.ChangeResult{Workload: &demo[1], Stored: map[string]string{"weight": "3", "queues": "[{}]"}}) +
			renderChange(api.ChangeResult{DryRun: true, Group: &api.Group{Name: "office"}, Dropped: map[string]string{"max": "10mbit"},
				Changes: []api.Change{{What: "eth0: group office: max 10 Mbit/s -> none", Why: "asked by weir group set"}}}),
		"change-not-held": renderChange(api.ChangeResult{Group: &api.Group{Name: "office"}, NotHeld: map[string]string{"max": "40mbit"}}) +
			renderChange(api.ChangeResult{Workload: &demo[1], NotHeld: map[string]string{"group": "office"},
				Changes: []api.Change{{What: "eth0: web: weight 1 -> 3", Why: "asked by weir set"}}}),
		"get-group-not-held": renderWorkloads(nil, []api.Group{{Name: "office", State: "not held", Policy: api.GroupPolicy{Policy: policy.MustChange("weight", "2", "max", "40mbit").Apply(policy.Default())}}}),
		"change-warning":     renderChange(api.ChangeResult{Changes: []api.Change{{What: "eth0: web: ...", Why: "asked by weir set"}}, Workload: &changed}),
	} {
		t.Run(name, func(t *testing.T) { goldentest.Check(t, filepath.Join("testdata", name+".golden"), text) })
	}
}

// TestNamesCannotReachTheTerminal: the user who starts a container chooses its name.
func TestNamesCannotReachTheTerminal(t *testing.T) {
	w := apitest.Workload("x\x1b]0;owned\x07\r", 1, 0, 0, 1)
	w.Note = "\x1b[2J"
	e := api.Explanation{Name: w.Name, Links: []api.ExplainLink{{Device: "eth0", Direction: "egress", Text: []string{w.Note}, Others: []api.Other{{Name: w.Name}}}}}
	r := api.ChangeResult{Changes: []api.Change{{What: "set " + w.Name, Why: "x"}}}
	st := api.Status{Links: []api.LinkStatus{{Device: "eth0", Direction: "egress", Error: w.Note, Gaps: []string{w.Note}}}, Sources: []api.Source{{Name: "docker", Note: w.Note}}}
	for name, render := range map[string]func() string{
		"get":     func() string { return renderWorkloads([]api.Workload{w}, nil) },
		"get one": func() string { return renderWorkload(w) },
		"explain": func() string { return renderExplanation(e) },
		"set":     func() string { return renderChange(r) },
		"status":  func() string { return renderStatus(st, true, time.Now()) },
	} {
		text, err := encode(formatTable, nil, render)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(text, "\x1b\x07\r") {
			t.Errorf("%s lets control characters through: %q", name, text)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{size(0), "0 B"}, {size(999), "999 B"}, {size(1000), "1.00 kB"}, {size(18168), "18.2 kB"},
		{size(999_499), "999 kB"}, {size(999_999), "1.00 MB"}, {size(6_250_000), "6.25 MB"}, {size(1_234_567_890_123), "1.23 TB"},
		{age(0), "0 s"}, {age(-time.Minute), "0 s"}, {age(59 * time.Second), "59 s"}, {age(61 * time.Second), "1 min 1 s"},
		{age(3*time.Hour + 12*time.Minute), "3 h 12 min"}, {age(50 * time.Hour), "2 d 2 h"},
		{limit(0), "-"}, {limit(20e6), "20 Mbit/s"}, {percent(0.333), "33 %"},
		{written(""), "none"}, {written("25%"), "25 %"}, {written("20mbit"), "20 Mbit/s"}, {written("odd"), "odd"},
		{drops(nil, 0), "none"},
		{drops(map[string]uint64{"b": 1, "a": 1, "c": 5, "d": 0}, 0), "7 packets (c 5, a 1, b 1)"},
		{drops(map[string]uint64{"a": 3}, 1.25), "3 packets (a 3), 1.25 a second now"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
