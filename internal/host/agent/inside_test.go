// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy/discipline"
	"weir/internal/core/refusal"
	"weir/internal/host/dataplane/fake"
)

// llqQueues are those of llq.
const llqQueues = "[{name: voice, rate: 1mbit, match: [{udp: 5001}]}, {name: video, min: 3mbit, match: [{udp: 5002}, {dscp: 34}], dscp: af41}, {name: rest, min: 1mbit}]"

// llq asks for a strict queue and two others, and for what else is said.
func llq(more ...string) api.PolicyChange {
	return apitest.Change(append([]string{"discipline", "llq", "queues", llqQueues}, more...)...)
}

func TestQueuesBySet(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		c := llq("aqm", "2ms/50ms", "dscp", "ef")
		if _, err := h.Set(t.Context(), "web", c, false); err != nil {
			t.Fatal(err)
		}
		check := func(when string) {
			t.Helper()
			class, _ := h.kernel.State("eth0").Class(1)
			var names []string
			for _, q := range class.Queues {
				names = append(names, q.Name)
			}
			if class.Discipline != discipline.LLQ || !reflect.DeepEqual(names, []string{"voice", "video", "rest"}) ||
				class.Queues[0].Rate != 1e6 || class.Queues[1].Weight != 3e6 || class.Queues[2].Weight != 1e6 ||
				*class.Queues[1].DSCP != 34 || *class.DSCP != 46 ||
				class.AQM != (plan.AQM{Target: 2 * time.Millisecond, Interval: 50 * time.Millisecond}) ||
				len(class.Queues[1].Match) != 2 || class.Queues[1].Match[0].String() != "{udp: 5002}" {
				t.Errorf("%s: %+v", when, class)
			}
		}
		check("set")
		sets := h.kernel.Sets("eth0")
		h.stop()
		h.start()
		seconds(2)
		check("restarted")
		if got := h.kernel.Sets("eth0"); got != sets {
			t.Errorf("%d changes by a restart", got-sets)
		}
		w := h.workload("web")
		if w.Policy.Discipline != "llq" || *w.Policy.DSCP != 46 || w.Policy.AQM.Compact() != "2ms/50ms" || *w.Policy.Queues[1].DSCP != 34 ||
			w.Policy.Queues[0].Match[0].String() != "{udp: 5001}" || w.Origin["queues"] != "set" || w.Origin["aqm"] != "set" {
			t.Errorf("shown as %+v", w.Policy)
		}
		result, err := h.Set(t.Context(), "web", apitest.Change("discipline", "fifo"), false)
		if err != nil || len(result.Changes) != 1 || !strings.HasPrefix(result.Changes[0].What,
			"eth0: web: discipline llq -> fifo, queues voice (rate 1 Mbit/s; {udp: 5001}), video (min 3 Mbit/s; dscp af41; {udp: 5002}; {dscp: af41}), rest (min 1 Mbit/s) -> none") {
			t.Errorf("%+v, %v", result, err)
		}
		if class, _ := h.kernel.State("eth0").Class(1); class.Queues != nil {
			t.Errorf("queues left: %+v", class)
		}
	})
}

func TestQueuesByLabel(t *testing.T) {
	inBubble(t, "labels: {allow: [discipline, queues, aqm, dscp]}", func(t *testing.T, h *host) {
		h.start()
		h.run("good", "weir.discipline=pq", "weir.queues=high: {match: [{preset: voip}, {udp: [1000, 2000-2010]}]}\nlow: {}", "weir.aqm=on", "weir.dscp=cs1")
		h.run("bad", "weir.discipline=pq", "weir.queues={a: {rate: 1mbps}}")
		h.run("overlap", "weir.discipline=pq", "weir.queues={a: {match: {udp: 1-10}}, b: {match: {udp: 5-20}}, c: {}}")
		if w := h.workload("good"); w.State != "active" || len(w.Policy.Queues) != 2 || w.Note != "" || w.Origin["queues"] != "label" {
			t.Errorf("%+v", w)
		}
		class, _ := h.kernel.State("eth0").Class(plan.ClassID(h.workload("good").Class))
		if class.Discipline != discipline.PQ || class.AQM.Target != discipline.DefaultTarget || class.DSCP == nil {
			t.Errorf("%+v", class)
		}
		if w := h.workload("bad"); w.State != "refused" || !strings.Contains(w.Note, `label weir.queues.a.rate "1mbps"`) ||
			!strings.Contains(w.Note, "discipline is not in force: there are no queues") {
			t.Errorf("%s: %s", w.State, w.Note)
		}
		if w := h.workload("overlap"); w.State != "active" || w.Note != "" || len(w.Warnings) != 1 {
			t.Errorf("%s: %s %q", w.State, w.Note, w.Warnings)
		}
	})
}

// Rules that overlap are named wherever a policy comes in, and written down once.
func TestRulesThatOverlapAreNamed(t *testing.T) {
	const file = `
workloads:
  gone: {discipline: pq, queues: {x: {match: {tcp: 1-10}}, y: {match: {tcp: 5-20}}, z: {}}}
`
	inBubble(t, file, func(t *testing.T, h *host) {
		h.start()
		h.run("web", "weir.discipline=pq", "weir.queues={a: {match: {udp: 1-10}}, b: {match: {udp: 5-20}}, c: {}}")
		seconds(3)
		const byLabel = `queues.b "{udp: 5-20}": {udp: 1-10} in queue a takes some of its packets before`
		const inFile = `workloads.gone.queues.y: "{tcp: 5-20}": {tcp: 1-10} in queue x takes some of its packets before`
		named := func(where string, list []string, want ...string) {
			t.Helper()
			if len(list) != len(want) {
				t.Fatalf("%s: %q, want %q", where, list, want)
			}
			for i, words := range want {
				if !strings.Contains(list[i], words) {
					t.Errorf("%s: %q does not say %q", where, list[i], words)
				}
			}
		}
		status, err := h.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		named("status", status.Warnings, inFile, "web: "+byLabel)
		e, err := h.Explain(t.Context(), "web")
		if err != nil {
			t.Fatal(err)
		}
		named("explain", e.Warnings, byLabel)
		result, err := h.Set(t.Context(), "web", llq(queues("{udp: 5002}", "{udp: [5001, 5002]}")...), true)
		if err != nil {
			t.Fatal(err)
		}
		named("dry run", result.Workload.Warnings, `queues.video "{udp: [5001, 5002]}": {udp: 5001} in queue voice`)

		h.config.Workloads = nil // and where the file has no such rules any longer
		next := h.config
		next.Warnings = []string{"weir.yaml:3:3: " + inFile, "weir.yaml:9:3: more"}
		h.load = func() (config.Config, error) { return next, nil }
		h.stop()
		h.start()
		for range 2 {
			if err := h.Reload(t.Context(), "test"); err != nil {
				t.Fatal(err)
			}
		}
		for words, times := range map[string]int{"{udp: 1-10} in queue a": 1, "{udp: 5001} in queue voice": 0, "weir.yaml:9:3: more": 1} {
			if got := strings.Count(h.log.String(), words); got != times {
				t.Errorf("%q is in the log %d times, want %d", words, got, times)
			}
		}
	})
}

// queues asks for llqQueues with one part of them replaced.
func queues(part, by string) []string {
	return []string{"queues", strings.Replace(llqQueues, part, by, 1)}
}

func TestQueuesRefused(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		h.run("odd", "weir.discipline=pq")
		before := h.state("eth0")
		for _, tt := range []struct {
			change []string
			words  []string
		}{
			{[]string{"discipline", "wfq"}, []string{"discipline", "wfq", "sfq, fifo, pq, cbwfq or llq"}},
			{[]string{"discipline", "fifo"}, []string{"discipline", "single queue"}},
			{queues("rate: 1mbit, ", ""), []string{"queues.voice.rate", "needs a rate"}},
			{queues("name: rest, min: 1mbit", "name: rest"), []string{"queues.rest.min", "video has one, rest has none"}},
			{[]string{"max", "4mbit"}, []string{"queues", "come to 5 Mbit/s", "the workload's max, 4 Mbit/s", "lower them by 1mbit"}},
			{queues("{udp: 5001}", "{udp: 5001, upd: 1}"), []string{"queues[0].match[0]", "no such key", "udp"}},
			{queues("{udp: 5002}", "{udp: 5001}"), []string{"queues.video", "can never fit"}},
			{[]string{"aqm", "1s"}, []string{"aqm", "not below the interval"}},
			{[]string{"dscp", "99"}, []string{"dscp", "six bits"}},
		} {
			_, err := h.Set(t.Context(), "web", llq(tt.change...), false)
			refused(t, err, refusal.Invalid, tt.words...)
		}
		_, err := h.Set(t.Context(), "web", apitest.Change("queues", llqQueues), false)
		refused(t, err, refusal.Invalid, "discipline", "sfq")
		if got := h.state("eth0"); got != before {
			t.Errorf("something was changed:\n%s", got)
		}
		h.set("odd", "weight=2") // the label's mistake is not the caller's
		if _, err := h.Set(t.Context(), "web", llq(), false); err != nil {
			t.Fatal(err)
		}
		_, err = h.Set(t.Context(), "web", change("max=4mbit"), false)
		refused(t, err, refusal.Invalid, "queues", "come to 5 Mbit/s")
	})
}

func TestQueueTrafficAndClassify(t *testing.T) {
	inBubble(t, "", func(t *testing.T, h *host) {
		h.start()
		h.run("web")
		if _, err := h.Set(t.Context(), "web", llq(), false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			h.kernel.Send("eth0", 1, fake.ClassTraffic{Bytes: 4e6 / 8})
			h.kernel.SendQueue("eth0", 1, 0, fake.ClassTraffic{Bytes: 1e6 / 8})
			h.kernel.SendQueue("eth0", 1, 2, fake.ClassTraffic{Bytes: 3e6 / 8, Backlog: 7, Drops: 3})
			seconds(1)
		}
		queues := h.workload("web").Links[0].Queues
		if len(queues) != 3 || queues[0].Name != "voice" || queues[0].RateBps != 1e6 || queues[1].SentBytes != 0 ||
			queues[2].RateBps != 3e6 || queues[2].BacklogPackets != 7 || queues[2].DropsPerSecond != 3 || queues[2].Drops["class_packets"] != 6 {
			t.Errorf("queues %+v", queues)
		}
		for _, tt := range []struct {
			packet api.Packet
			text   string
		}{
			{api.Packet{Proto: "udp", Dst: "10.0.0.2", Dport: 5001}, "Rule {udp: 5001} comes first; queue voice, number 1 of 3 of web."},
			{api.Packet{Proto: "udp", Dst: "2001:db8::1", Sport: 5002}, "Rule {udp: 5002} comes first; queue video, number 2 of 3 of web. It leaves with DSCP af41 (34)."},
			{api.Packet{DSCP: "af41"}, "Rule {dscp: af41} comes first; queue video, number 2 of 3 of web. It leaves with DSCP af41 (34)."},
			{api.Packet{Proto: "tcp", Dport: 5001}, "No rule fits; queue rest, number 3 of 3 of web, takes what fits nowhere."},
		} {
			place, err := h.Classify(t.Context(), "web", tt.packet)
			if err != nil || place.Text != tt.text {
				t.Errorf("%+v: %q, %v\nwant %q", tt.packet, place.Text, err, tt.text)
			}
		}
		if place, err := h.Classify(t.Context(), "host", api.Packet{}); err != nil || place.Queue != "" || !strings.Contains(place.Text, "sfq") {
			t.Errorf("%+v, %v", place, err)
		}
		_, err := h.Classify(t.Context(), "wbe", api.Packet{})
		refused(t, err, refusal.Unknown, "wbe")
		_, err = h.Classify(t.Context(), "web", api.Packet{Dst: "10.0.0.0/8"})
		refused(t, err, refusal.Invalid, "dst", "single address")
		_, err = h.Classify(t.Context(), "web", api.Packet{Proto: "quic"})
		refused(t, err, refusal.Invalid, "proto", "no such protocol")
	})
}
