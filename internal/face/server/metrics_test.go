// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"log/slog"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/core/delay"
	"weir/internal/core/workload"
	"weir/internal/test/goldentest"
)

func noRefusals() map[string]uint64 { return nil }

func TestMetricsLint(t *testing.T) {
	problems, err := testutil.CollectAndLint(newCollector(demo(), noRefusals))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// Promlint wants bytes; link rates are spoken of in bits everywhere else
		// in Weir, and a name that says so cannot be misread.
		if strings.HasSuffix(p.Metric, "_bits_per_second") && strings.Contains(p.Text, `use base unit "bytes"`) {
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsValues(t *testing.T) {
	want := `
# HELP weir_class_backlog_packets Waiting in the workload's queue now.
# TYPE weir_class_backlog_packets gauge
weir_class_backlog_packets{class="0",direction="egress",link="eth0",workload="host"} 0
weir_class_backlog_packets{class="1",direction="egress",link="eth0",workload="web"} 12
weir_class_backlog_packets{class="2",direction="egress",link="eth0",workload="batch"} 1000
weir_class_backlog_packets{class="3",direction="egress",link="eth0",workload="cam"} 0
# HELP weir_class_drops_packets_total Dropped instead of queued, by reason.
# TYPE weir_class_drops_packets_total counter
weir_class_drops_packets_total{class="2",direction="egress",link="eth0",reason="class_packets",workload="batch"} 42
weir_class_drops_packets_total{class="2",direction="egress",link="eth0",reason="link_bytes",workload="batch"} 3
# HELP weir_class_min_bits_per_second Guaranteed rate, 0 = none.
# TYPE weir_class_min_bits_per_second gauge
weir_class_min_bits_per_second{class="0",direction="egress",link="eth0",workload="host"} 0
weir_class_min_bits_per_second{class="1",direction="egress",link="eth0",workload="web"} 2e+07
weir_class_min_bits_per_second{class="2",direction="egress",link="eth0",workload="batch"} 0
weir_class_min_bits_per_second{class="3",direction="egress",link="eth0",workload="cam"} 0
# HELP weir_class_transmit_bytes_total Sent to the device, or for ingress to the workload, on the wire.
# TYPE weir_class_transmit_bytes_total counter
weir_class_transmit_bytes_total{class="0",direction="egress",link="eth0",workload="host"} 0
weir_class_transmit_bytes_total{class="1",direction="egress",link="eth0",workload="web"} 6.25e+06
weir_class_transmit_bytes_total{class="2",direction="egress",link="eth0",workload="batch"} 4.125e+06
weir_class_transmit_bytes_total{class="3",direction="egress",link="eth0",workload="cam"} 1.25e+06
# HELP weir_link_capacity_bits_per_second Rate that the link's workloads share, on the wire.
# TYPE weir_link_capacity_bits_per_second gauge
weir_link_capacity_bits_per_second{direction="egress",link="eth0"} 1e+08
# HELP weir_source_up 1 if workloads are seen by this source (docker, netns, device, vm, cgroup, pod), else 0.
# TYPE weir_source_up gauge
weir_source_up{source="device"} 0
weir_source_up{source="docker"} 1
weir_source_up{source="netns"} 1
`
	err := testutil.CollectAndCompare(newCollector(demo(), noRefusals), strings.NewReader(want),
		"weir_class_backlog_packets", "weir_class_drops_packets_total", "weir_class_min_bits_per_second",
		"weir_class_transmit_bytes_total", "weir_link_capacity_bits_per_second", "weir_source_up")
	if err != nil {
		t.Error(err)
	}
}

// TestHistograms: a scraper has a classic histogram in text, and the native one beside it by
// protobuf; there is none of a workload whose delays are not measured.
func TestHistograms(t *testing.T) {
	families := map[string]*dto.MetricFamily{}
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(demo(), noRefusals))
	list, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		families[f.GetName()] = f
	}
	series := families["weir_class_delay_seconds"].GetMetric()
	if len(series) != 1 || families["weir_queue_delay_seconds"] != nil {
		t.Fatalf("%d series of classes; %v of queues", len(series), families["weir_queue_delay_seconds"])
	}
	h := series[0].GetHistogram()
	_, longest := delay.Bounds(198)
	if h.GetSampleCount() != 41200 || math.Abs(h.GetSampleSum()-20600*(0.00084+0.00505)) > 2 {
		t.Errorf("count %d, sum %v", h.GetSampleCount(), h.GetSampleSum())
	}
	for _, b := range h.GetBucket() {
		from, _ := delay.Bounds(115)
		want := map[bool]uint64{true: 20600}[b.GetUpperBound() > from.Seconds()*1.05] + map[bool]uint64{true: 20600}[b.GetUpperBound() >= longest.Seconds()]
		if b.GetUpperBound() != 0.005 && b.GetCumulativeCount() != want {
			t.Errorf("within %v s: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
		}
	}
	if h.GetSchema() != nativeSchema || len(h.GetPositiveDelta()) == 0 || len(h.GetBucket()) != len(delayBuckets) {
		t.Errorf("native: schema %d, %v; classic: %v", h.GetSchema(), h.GetPositiveDelta(), h.GetBucket())
	}
	// What a native histogram says of p99 is within 5 % of the bin's middle.
	_, positive := nativeBuckets(&delay.Histogram{198: 1})
	for index := range positive {
		if upper := math.Exp2(float64(index) / (1 << nativeSchema)); upper < 0.00498 || upper/math.Exp2(1./(1<<nativeSchema)) > 0.005112 {
			t.Errorf("5 ms are in the bucket up to %v s", upper)
		}
	}
}

func TestMetricsOfAnOddName(t *testing.T) {
	w := apitest.Workload("bad\xff\"name\n", 1, 0, 0, 1)
	status, _, body := request(t, apitest.New(w), "GET", "/metrics", "")
	if status != 200 || !strings.Contains(body, `workload="bad?\"name\n"`) {
		t.Errorf("status %d; the name is not there as it should be", status)
	}
}

func TestMetricsOfWhatIsNotHeld(t *testing.T) {
	w := apitest.Workload("pbx", 1, 0, 0, 1)
	w.NotHeld = []api.PolicyGap{{Device: "eth0", Direction: "egress", Field: "discipline", Value: "llq"}}
	fake := apitest.New(w)
	fake.LinkGaps = []api.PolicyGap{{Device: "eth0", Direction: "egress", Field: "scheduler", Value: "qcon", Accepted: true}}
	_, _, body := request(t, fake, "GET", "/metrics", "")
	for _, want := range []string{
		`weir_policy_not_held{accepted="false",direction="egress",field="discipline",kind="workload",link="eth0",name="pbx"} 1`,
		`weir_policy_not_held{accepted="true",direction="egress",field="scheduler",kind="link",link="eth0",name="eth0"} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not among\n%s", want, body)
		}
	}
}

// TestMetricsTable: every line of the table has what the docs need.
func TestMetricsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics {
		if seen[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		seen[m.name] = true
		if m.help == "" || !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: help %q is no sentence", m.name, m.help)
		}
		if m.unit != "" && !strings.Contains(m.name, strings.ReplaceAll(m.unit, " ", "_")) {
			t.Errorf("%s does not name its unit %q", m.name, m.unit)
		}
	}
}

func TestMetricsDoc(t *testing.T) { goldentest.Check(t, "../../../docs/metrics.md", metricsDoc()) }

// TestMetricsInside: queues inside a workload and groups have series of their own.
func TestMetricsInside(t *testing.T) {
	w := apitest.Workload("pbx", 1, 0, 0, 2)
	w.Policy.Group, w.Policy.Discipline = "office", "llq"
	w.Links[0].Queues = []api.QueueTraffic{
		{Name: "voice", SentBytes: 1000, SentPackets: 5},
		{Name: "rest", SentBytes: 7000, SentPackets: 6, BacklogPackets: 3, BacklogBytes: 4500, Drops: map[string]uint64{"codel": 2}},
	}
	const want = `
# HELP weir_group_max_bits_per_second Ceiling; no series where there is none.
# TYPE weir_group_max_bits_per_second gauge
weir_group_max_bits_per_second{class="100",direction="egress",group="office",link="eth0"} 4e+07
# HELP weir_queue_backlog_packets Waiting in the queue now.
# TYPE weir_queue_backlog_packets gauge
weir_queue_backlog_packets{class="0",direction="egress",link="eth0",queue="rest",workload="pbx"} 3
weir_queue_backlog_packets{class="0",direction="egress",link="eth0",queue="voice",workload="pbx"} 0
# HELP weir_queue_drops_packets_total Dropped from or before the queue, by reason.
# TYPE weir_queue_drops_packets_total counter
weir_queue_drops_packets_total{class="0",direction="egress",link="eth0",queue="rest",reason="codel",workload="pbx"} 2
# HELP weir_queue_transmit_bytes_total Sent from one queue inside a workload, on the wire.
# TYPE weir_queue_transmit_bytes_total counter
weir_queue_transmit_bytes_total{class="0",direction="egress",link="eth0",queue="rest",workload="pbx"} 7000
weir_queue_transmit_bytes_total{class="0",direction="egress",link="eth0",queue="voice",workload="pbx"} 1000
# HELP weir_workload_info Always 1; what the workload is, whether it is steered (state active), its group and its discipline.
# TYPE weir_workload_info gauge
weir_workload_info{discipline="llq",group="office",key="docker:pbx",kind="docker",state="active",workload="pbx"} 1
`
	fake := apitest.New(w).WithGroup("office", 2, 0, 40)
	err := testutil.CollectAndCompare(newCollector(fake, noRefusals), strings.NewReader(want), "weir_group_max_bits_per_second",
		"weir_queue_backlog_packets", "weir_queue_drops_packets_total", "weir_queue_transmit_bytes_total", "weir_workload_info")
	if err != nil {
		t.Error(err)
	}
}

// TestNoMaxNoSeries: a workload or group without a max has no series of it, so that a
// rate divided by a max is never infinite.
func TestNoMaxNoSeries(t *testing.T) {
	want := `
# HELP weir_class_max_bits_per_second Ceiling; no series where there is none.
# TYPE weir_class_max_bits_per_second gauge
weir_class_max_bits_per_second{class="3",direction="egress",link="eth0",workload="cam"} 1e+07
# HELP weir_group_max_bits_per_second Ceiling; no series where there is none.
# TYPE weir_group_max_bits_per_second gauge
weir_group_max_bits_per_second{class="100",direction="egress",group="capped",link="eth0"} 4e+07
`
	fake := demo().WithGroup("capped", 2, 0, 40).WithGroup("free", 2, 0, 0)
	if err := testutil.CollectAndCompare(newCollector(fake, noRefusals), strings.NewReader(want), "weir_class_max_bits_per_second", "weir_group_max_bits_per_second"); err != nil {
		t.Error(err)
	}
}

// TestMetricsOfTheAgent: reloads, gaps, and what was refused, by kind; a dry run is
// only a question.
func TestMetricsOfTheAgent(t *testing.T) {
	s := New(demo(), Options{Log: slog.New(slog.DiscardHandler)})
	ask := func(method, path, body string) {
		req := httptest.NewRequest(method, path, strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		s.Handler().ServeHTTP(httptest.NewRecorder(), req)
	}
	ask("PATCH", "/v1/workloads/batch/policy", `{"min": "90mbit"}`)              // no room
	ask("PATCH", "/v1/workloads/batch/policy?dry_run=true", `{"min": "90mbit"}`) // a question
	ask("PATCH", "/v1/workloads/web/policy", `{"weight": 2}`)                    // granted
	ask("PATCH", "/v1/workloads/web/policy", `{"weihgt": 2}`)
	ask("PATCH", "/v1/workloads/nobody/policy", `{"weight": 2}`)
	w := httptest.NewRecorder()
	s.rest.Reading("/s", "").ServeHTTP(w, httptest.NewRequest("DELETE", "/v1/workloads/web", nil))
	want := `
# HELP weir_config_reload_success_time_seconds When the configuration in force was read, Unix time.
# TYPE weir_config_reload_success_time_seconds gauge
weir_config_reload_success_time_seconds 1.7723664e+09
# HELP weir_config_reloads_total Times that the configuration file was read again, by whether it was right.
# TYPE weir_config_reloads_total counter
weir_config_reloads_total{result="failed"} 1
weir_config_reloads_total{result="ok"} 2
# HELP weir_link_gaps Promises that the link's backend cannot hold on this kernel; weir status names them.
# TYPE weir_link_gaps gauge
weir_link_gaps{direction="egress",link="eth0"} 1
# HELP weir_refusals_total Requests for a change that were not granted, by kind: input, unknown (name), conflict (no room, name taken), role, busy, failed.
# TYPE weir_refusals_total counter
weir_refusals_total{kind="busy"} 0
weir_refusals_total{kind="conflict"} 1
weir_refusals_total{kind="failed"} 0
weir_refusals_total{kind="input"} 1
weir_refusals_total{kind="role"} 1
weir_refusals_total{kind="unknown"} 1
`
	if err := testutil.CollectAndCompare(newCollector(s.agent, s.rest.Refusals), strings.NewReader(want),
		"weir_config_reload_success_time_seconds", "weir_config_reloads_total", "weir_link_gaps", "weir_refusals_total"); err != nil {
		t.Error(err)
	}
}

// TestSampleFor: the gaps of backends come with a stream's first sample alone, and the
// agent's own sample keeps them.
func TestSampleFor(t *testing.T) {
	sample := api.Sample{Links: []api.LinkStatus{{Device: "eth0", Gaps: []string{"a gap"}}}}
	if first := sampleFor(sample, true); len(first.Links[0].Gaps) != 1 {
		t.Errorf("the first sample has gaps %v", first.Links[0].Gaps)
	}
	later, err := json.Marshal(sampleFor(sample, false))
	if err != nil || strings.Contains(string(later), "gap") || len(sample.Links[0].Gaps) != 1 {
		t.Errorf("a later sample is %s (%v), the agent's has gaps %v", later, err, sample.Links[0].Gaps)
	}
	status, err := json.Marshal(wholeStatus(api.Status{Links: []api.LinkStatus{{}}}))
	if err != nil || !strings.Contains(string(status), `"gaps":[]`) {
		t.Errorf("a status without gaps is %s (%v)", status, err)
	}
}

// TestMetricsOfPods: each pod has one series with namespace and pod, whatever its links, queues and
// policy; other workloads have none, even where their name has a slash.
func TestMetricsOfPods(t *testing.T) {
	pod, waits, odd := apitest.Workload("shop/web", 1, 0, 0, 2), apitest.Workload("shop/db", 1, 0, 0, 2), apitest.Workload("a/b", 1, 0, 0, 2)
	pod.Kind, waits.Kind, waits.State = workload.KindPod, workload.KindPod, workload.StateWaiting
	pod.Links = append(pod.Links, pod.Links[0])
	pod.Links[1].Direction = "ingress"
	const want = `
# HELP weir_pod_info Always 1; namespace and pod of a workload that is a pod of Kubernetes, to join with the other series by workload. One series for each pod of the node.
# TYPE weir_pod_info gauge
weir_pod_info{namespace="shop",pod="db",workload="shop/db"} 1
weir_pod_info{namespace="shop",pod="web",workload="shop/web"} 1
`
	if err := testutil.CollectAndCompare(newCollector(apitest.New(pod, waits, odd), noRefusals), strings.NewReader(want), "weir_pod_info"); err != nil {
		t.Error(err)
	}
}
