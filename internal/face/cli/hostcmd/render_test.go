// SPDX-License-Identifier: Apache-2.0

package hostcmd

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/event"
	"weir/internal/core/policy"
	"weir/internal/face/cli/frame"
	"weir/internal/test/goldentest"
)

func TestRenderings(t *testing.T) {
	fake := apitest.New(apitest.Demo()...)
	status, err := fake.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	troubled := status
	troubled.Config = ""
	troubled.Links = []api.LinkStatus{
		{Device: "eth0", Direction: "egress", Backend: "tc", Scheduler: "htb", CapacityBps: 100e6, Reservable: 1, FreeBps: 100e6,
			NotHeld: []api.PolicyGap{{Device: "eth0", Direction: "egress", Field: "scheduler", Value: "qcon", Reason: "HTB schedules in its place"}}},
		{Device: "eth1", Direction: "egress", Backend: "tc", Scheduler: "htb", CapacityBps: 100e6, Reservable: 1, FreeBps: 100e6,
			NotHeld: []api.PolicyGap{{Device: "eth1", Direction: "egress", Field: "overhead", Value: "-4", Reason: "HTB counts 0", Accepted: true}}},
		{Device: "eth2", Direction: "egress", Backend: "bpf", Scheduler: "fair", CapacityBps: 40e9, Reservable: 1, FreeBps: 40e9,
			Warning: "one root qdisc carries 25 Gbit/s at most; mq with fq was there before; write egress: 25000mbit"},
		{Device: "wan0", Direction: "egress", Backend: "none", Scheduler: "fair", CapacityBps: 25e9, Reservable: 0.75,
			FreeBps: 18.75e9, Error: "wan0: no such network device; it is taken over as soon as it appears"},
	}
	const overlap = `queues.b "{udp: 5-20}": {udp: 1-10} in queue a takes some of its packets before; write ranges that do not overlap, if that is not meant`
	troubled.Warnings = []string{"/etc/weir/weir.yaml:7:5: workloads.web." + strings.Replace(overlap, " ", ": ", 1), "cam: " + overlap}
	troubled.ConfigError = "weir.yaml:1:1: wrong\nweir.yaml:2:2: worse"
	troubled.Refused = []string{"a", "b", "c", "d"}
	troubled.Problems = event.Problems(event.Sight{ConfigFile: "weir.yaml", ConfigError: troubled.ConfigError,
		Links: []event.LinkSight{{Device: "eth0", Direction: "egress", NotHeld: "scheduler qcon is not held on this kernel: HTB schedules in its place"},
			{Device: "wan0", Direction: "egress", Gone: true, Error: troubled.Links[3].Error}},
		Objects: []event.Object{{Type: event.Workload, Name: "a", Refused: "min"}, {Type: event.Workload, Name: "b", Refused: "min"}, {Type: event.Workload, Name: "c", Refused: "min"}, {Type: event.Group, Name: "d", Refused: "min"}}})
	explanation := api.Explanation{Name: "web", Warnings: []string{overlap}, Links: []api.ExplainLink{
		{Device: "eth0", Direction: "egress", Binds: "min", LevelBps: 14e6, FairBps: 14e6, IdealBps: 30e6, RateBps: 29.9e6,
			Text:   []string{"web gets its min: its fair share would be 14 Mbit/s."},
			Others: []api.Other{{Name: "batch", RateBps: 28.1e6, Weight: 2, Binds: "share"}, {Name: "cam", RateBps: 9.9e6, Weight: 1, Binds: "max"}, {Name: "ntp", RateBps: 900, Weight: 1, Binds: "demand"}}},
		{Device: "wan0", Direction: "egress", Binds: "idle", Text: []string{"web sends nothing here."}},
	}}
	usage := api.Usage{Rows: []api.UsageRow{
		{Kind: api.UsageOfLink, Name: "eth0", Device: "eth0", SentBytes: 512_345_678_901, ReceivedBytes: 12_345},
		{Kind: api.UsageOfGroup, Name: "office", Device: "eth0", SentBytes: 2e9, ReceivedUncounted: true},
		{Kind: api.UsageOfWorkload, Name: "web", Device: "eth0", SentBytes: 999, ReceivedBytes: 12_345},
	}}
	events, err := fake.Events(t.Context(), api.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	set := apitest.Demo()[2]
	set.Policy.LimitPackets, set.Policy.LimitBytes = 500, 1_500_000
	set.Policy.Min, set.Links[0].MinBps = policy.Amount{Percent: 12.5}, 12.5e6
	set.Note, set.Warnings = "min was refused at first", []string{overlap}
	for name, text := range map[string]string{
		"status":             renderStatus(status, false, apitest.Start.Add(3*time.Hour+25*time.Minute)),
		"status-troubled":    renderStatus(troubled, true, apitest.Start.Add(45*time.Second)),
		"status-no-link":     renderStatus(api.Status{Version: "1.2.3", Started: apitest.Start, Problems: event.Problems(event.Sight{NoLink: true})}, false, apitest.Start.Add(50*time.Hour)),
		"get":                renderWorkloads(apitest.Demo(), nil),
		"get-none":           renderWorkloads(nil, nil),
		"get-one":            renderWorkload(set),
		"get-waiting":        renderWorkload(apitest.Demo()[4]),
		"usage":              renderUsage(usage, api.UsageByTotal),
		"usage-none":         renderUsage(api.Usage{}, api.UsageByDay),
		"explain":            renderExplanation(explanation),
		"events":             renderEvents(events, time.UTC),
		"events-none":        renderEvents(api.Events{}, time.UTC),
		"events-open":        renderOpen(events.Open, time.UTC),
		"get-group-not-held": renderWorkloads(nil, []api.Group{{Name: "office", State: "not held", Policy: api.GroupPolicy{Policy: policy.MustChange("weight", "2", "max", "40mbit").Apply(policy.Default())}}}),
	} {
		t.Run(name, func(t *testing.T) { goldentest.Check(t, filepath.Join("testdata", name+".golden"), text) })
	}
}

// TestNamesCannotReachTheTerminal: the user who starts a container chooses its name.
func TestNamesCannotReachTheTerminal(t *testing.T) {
	w := apitest.Workload("x\x1b]0;owned\x07\r", 1, 0, 0, 1)
	w.Note = "\x1b[2J"
	e := api.Explanation{Name: w.Name, Links: []api.ExplainLink{{Device: "eth0", Direction: "egress", Text: []string{w.Note}, Others: []api.Other{{Name: w.Name}}}}}
	r := api.ChangeResult{Changes: []api.Edit{{What: "set " + w.Name, Why: "x"}}}
	st := api.Status{Links: []api.LinkStatus{{Device: "eth0", Direction: "egress", Error: w.Note, Gaps: []string{w.Note}}}, Sources: []api.Source{{Name: "docker", Note: w.Note}}}
	for name, render := range map[string]func() string{
		"get":     func() string { return renderWorkloads([]api.Workload{w}, nil) },
		"get one": func() string { return renderWorkload(w) },
		"explain": func() string { return renderExplanation(e) },
		"set":     func() string { return frame.RenderChange(r) },
		"status":  func() string { return renderStatus(st, true, time.Now()) },
	} {
		text, err := frame.Encode(frame.Table, nil, render)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.ContainsAny(text, "\x1b\x07\r") {
			t.Errorf("%s lets control characters through: %q", name, text)
		}
	}
}
