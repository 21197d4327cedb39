// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/api"
	"weir/internal/api/apitest"
	"weir/internal/goldentest"
)

func TestMetricsLint(t *testing.T) {
	problems, err := testutil.CollectAndLint(newCollector(demo()))
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
# HELP weir_link_capacity_bits_per_second What the link's workloads share, on the wire.
# TYPE weir_link_capacity_bits_per_second gauge
weir_link_capacity_bits_per_second{direction="egress",link="eth0"} 1e+08
# HELP weir_source_up 1 if workloads are seen by this source (docker, netns, device, vm, cgroup), else 0.
# TYPE weir_source_up gauge
weir_source_up{source="device"} 0
weir_source_up{source="docker"} 1
weir_source_up{source="netns"} 1
`
	err := testutil.CollectAndCompare(newCollector(demo()), strings.NewReader(want),
		"weir_class_backlog_packets", "weir_class_drops_packets_total", "weir_class_min_bits_per_second",
		"weir_class_transmit_bytes_total", "weir_link_capacity_bits_per_second", "weir_source_up")
	if err != nil {
		t.Error(err)
	}
}

func TestMetricsOfAnOddName(t *testing.T) {
	w := apitest.Workload("bad\xff\"name\n", 1, 0, 0, 1)
	status, _, body := request(t, apitest.New(w), "GET", "/metrics", "")
	if status != 200 || !strings.Contains(body, `workload="bad?\"name\n"`) {
		t.Errorf("status %d; the name is not there as it should be", status)
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

func TestMetricsDoc(t *testing.T) { goldentest.Check(t, "../../docs/metrics.md", metricsDoc()) }

// TestMetricsInside: queues inside a workload and groups have series of their own.
func TestMetricsInside(t *testing.T) {
	w := apitest.Workload("pbx", 1, 0, 0, 2)
	w.Policy.Group, w.Policy.Discipline = "office", "llq"
	w.Links[0].Queues = []api.QueueTraffic{
		{Name: "voice", SentBytes: 1000, SentPackets: 5},
		{Name: "rest", SentBytes: 7000, SentPackets: 6, BacklogPackets: 3, BacklogBytes: 4500, Drops: map[string]uint64{"codel": 2}},
	}
	const want = `
# HELP weir_group_max_bits_per_second Ceiling, 0 = none.
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
	err := testutil.CollectAndCompare(newCollector(fake), strings.NewReader(want), "weir_group_max_bits_per_second",
		"weir_queue_backlog_packets", "weir_queue_drops_packets_total", "weir_queue_transmit_bytes_total", "weir_workload_info")
	if err != nil {
		t.Error(err)
	}
}
