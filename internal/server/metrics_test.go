// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"weir/internal/api/apitest"
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
weir_class_backlog_packets{class="0",link="eth0",workload="host"} 0
weir_class_backlog_packets{class="1",link="eth0",workload="web"} 12
weir_class_backlog_packets{class="2",link="eth0",workload="batch"} 1000
weir_class_backlog_packets{class="3",link="eth0",workload="cam"} 0
# HELP weir_class_drops_packets_total Dropped instead of queued, by reason.
# TYPE weir_class_drops_packets_total counter
weir_class_drops_packets_total{class="2",link="eth0",reason="class_packets",workload="batch"} 42
weir_class_drops_packets_total{class="2",link="eth0",reason="link_bytes",workload="batch"} 3
# HELP weir_class_min_bits_per_second Guaranteed rate, 0 = none.
# TYPE weir_class_min_bits_per_second gauge
weir_class_min_bits_per_second{class="0",link="eth0",workload="host"} 0
weir_class_min_bits_per_second{class="1",link="eth0",workload="web"} 2e+07
weir_class_min_bits_per_second{class="2",link="eth0",workload="batch"} 0
weir_class_min_bits_per_second{class="3",link="eth0",workload="cam"} 0
# HELP weir_class_transmit_bytes_total Sent to the device, on the wire; egress (upload).
# TYPE weir_class_transmit_bytes_total counter
weir_class_transmit_bytes_total{class="0",link="eth0",workload="host"} 0
weir_class_transmit_bytes_total{class="1",link="eth0",workload="web"} 6.25e+06
weir_class_transmit_bytes_total{class="2",link="eth0",workload="batch"} 4.125e+06
weir_class_transmit_bytes_total{class="3",link="eth0",workload="cam"} 1.25e+06
# HELP weir_link_capacity_bits_per_second What the link's workloads share, on the wire.
# TYPE weir_link_capacity_bits_per_second gauge
weir_link_capacity_bits_per_second{link="eth0"} 1e+08
# HELP weir_source_up 1 if workloads are seen by this source (docker, netns, device), else 0.
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

func TestMetricsDoc(t *testing.T) { compare(t, "../../docs/metrics.md", metricsDoc()) }
