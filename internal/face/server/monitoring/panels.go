// SPDX-License-Identifier: Apache-2.0

package monitoring

// The filters of queries by the choices at the top of a page.
const (
	onHost  = `instance=~"$instance"`
	onLink  = onHost + `,link=~"$link",direction=~"$direction"`
	ofClass = onLink + `,workload=~"$workload"`
)

var hostVariables = []variable{{"instance", "weir_build_info", "instance"}, {"link", "weir_link_info", "link"}, {"direction", "weir_link_info", "direction"}}

// dashboards are all pages.
var dashboards = []dashboard{
	{"weir-links.json", "weir-links", "Weir: hosts and links", "How full each link is, who has which share, what is promised and what is wrong.", hostVariables, []section{
		{"Is all well?", []panel{
			{"Links that are not steered", number, 4, count, []query{{`sum(1 - weir_link_up{` + onLink + `}) or vector(0)`, ""}}},
			{"Problems", number, 4, count, []query{{`sum(weir_problems{` + onHost + `})`, ""}}},
			{"Workloads without all of their policy", number, 4, count, []query{{`sum(weir_workload_info{` + onHost + `,state=~"refused|not held"}) or vector(0)`, ""}}},
			{"Events by kind", rows, 6, count, []query{{`sum by (instance, kind) (weir_events_open{` + onHost + `}) > 0 or sum by (instance, kind) (increase(weir_events_total{` + onHost + `}[1d]))`, ""}}},
			{"Links", rows, 6, count, []query{{`weir_link_info{` + onLink + `}`, ""}}},
		}},
		{"Links", []panel{
			{"Rate of each link, and its capacity", series, 12, bits, []query{
				{`sum by (instance, link, direction) (weir:class_transmit:bps{` + onLink + `})`, "{{link}} {{direction}}"},
				{`weir_link_capacity_bits_per_second{` + onLink + `}`, "{{link}} {{direction}}: capacity"}}},
			{"How full", series, 12, part, []query{{`weir:link_used:ratio{` + onLink + `}`, "{{link}} {{direction}}"}}},
			{"Shares", stack, 12, bits, []query{{`weir:class_transmit:bps{` + onLink + `}`, "{{workload}} {{direction}}"}}},
			{"What the contract gives each", stack, 12, bits, []query{{`weir_class_ideal_bits_per_second{` + onLink + `}`, "{{workload}} {{direction}}"}}},
			{"Mins: reserved and free", stack, 12, bits, []query{
				{`weir_link_reserved_bits_per_second{` + onLink + `}`, "{{link}} {{direction}}: reserved"}, {`weir_link_free_bits_per_second{` + onLink + `}`, "{{link}} {{direction}}: free"}}},
			{"Workloads, and promises that the backend cannot hold", series, 12, count, []query{
				{`weir_link_workloads{` + onLink + `}`, "{{link}} {{direction}}: workloads"}, {`weir_link_gaps{` + onLink + `}`, "{{link}} {{direction}}: gaps"}}},
		}},
		{"Losses and queues", []panel{
			{"Dropped packets by reason", series, 12, packets, []query{{`sum by (link, direction, reason) (rate(weir_class_drops_packets_total{` + onLink + `}[$__rate_interval]))`, "{{link}} {{direction}}: {{reason}}"}}},
			{"Part of the packets that is dropped", series, 12, part, []query{{`weir:class_drops:ratio{` + onLink + `}`, "{{workload}} {{direction}}"}}},
			{"Waiting", stack, 12, bytes, []query{{`weir_class_backlog_bytes{` + onLink + `}`, "{{workload}} {{direction}}"}}},
			{"Sent packets", series, 12, packets, []query{{`rate(weir_class_transmit_packets_total{` + onLink + `}[$__rate_interval])`, "{{workload}} {{direction}}"},
				{`rate(weir_link_transmit_packets_total{` + onLink + `}[$__rate_interval])`, "all {{direction}}"}}},
		}},
		{"The agent", []panel{
			{"Builds", rows, 8, count, []query{{`weir_build_info{` + onHost + `}`, ""}}},
			{"Sources of workloads", series, 8, count, []query{{`weir_source_up{` + onHost + `}`, "{{source}}"}}},
			{"Running for", number, 4, "s", []query{{`time() - weir_agent_start_time_seconds{` + onHost + `}`, "{{instance}}"}}},
			{"Configuration in force for", number, 4, "s", []query{{`time() - weir_config_reload_success_time_seconds{` + onHost + `}`, "{{instance}}"}}},
			{"Refused requests, by kind", series, 8, count, []query{{`increase(weir_refusals_total{` + onHost + `}[$__rate_interval])`, "{{kind}}"}}},
			{"Reloads of the configuration", series, 8, count, []query{{`increase(weir_config_reloads_total{` + onHost + `}[$__rate_interval])`, "{{result}}"}}},
			{"CPU and memory", series, 8, count, []query{{`rate(process_cpu_seconds_total{` + onHost + `,job="weir"}[$__rate_interval])`, "{{instance}}: CPUs"}}},
			{"Events: delivered, waiting, given up", series, 12, count, []query{
				{`weir_events_delivered_total{` + onHost + `}`, "{{sink}}: delivered"}, {`weir_events_waiting{` + onHost + `}`, "{{sink}}: waiting"}, {`weir_events_undelivered_total{` + onHost + `}`, "{{sink}}: given up"}}},
			{"Memory", series, 12, bytes, []query{{`process_resident_memory_bytes{` + onHost + `,job="weir"}`, "{{instance}}"}}},
		}},
	}},
	{"weir-workloads.json", "weir-workloads", "Weir: workloads", "What a workload gets, what it was promised and why it does not have more.",
		append(append([]variable{}, hostVariables...), variable{"workload", "weir_class_weight", "workload"}), []section{
			{"Rate", []panel{
				{"Rate, ideal, min and max", series, 16, bits, []query{
					{`weir:class_transmit:bps{` + ofClass + `}`, "{{workload}} {{direction}}"}, {`weir_class_ideal_bits_per_second{` + ofClass + `}`, "{{workload}}: ideal"},
					{`weir_class_min_bits_per_second{` + ofClass + `} > 0`, "{{workload}}: min"}, {`weir_class_max_bits_per_second{` + ofClass + `}`, "{{workload}}: max"}}},
				{"Weight", number, 4, count, []query{{`weir_class_weight{` + ofClass + `}`, "{{workload}} {{direction}}"}}},
				{"Promise kept, part of the seconds of 5 minutes", number, 4, part, []query{{`increase(weir_class_kept_seconds_total{` + ofClass + `}[5m]) / increase(weir_class_wanted_seconds_total{` + ofClass + `}[5m])`, "{{workload}} {{direction}}"}}},
				{"State", rows, 12, count, []query{{`weir_workload_info{` + onHost + `,workload=~"$workload"}`, ""}}},
				{"Not held on this kernel", rows, 12, count, []query{{`weir_policy_not_held{` + onLink + `}`, ""}}},
			}},
			{"Queues", []panel{
				{"How long packets wait", series, 8, "s", []query{
					{`histogram_quantile(0.5, sum by (le, workload, direction) (rate(weir_class_delay_seconds_bucket{` + ofClass + `}[$__rate_interval])))`, "{{workload}} {{direction}}: p50"},
					{`histogram_quantile(0.99, sum by (le, workload, direction) (rate(weir_class_delay_seconds_bucket{` + ofClass + `}[$__rate_interval])))`, "{{workload}} {{direction}}: p99"}}},
				{"Waiting packets", series, 8, count, []query{{`weir_class_backlog_packets{` + ofClass + `}`, "{{workload}} {{direction}}"}}},
				{"Dropped packets by reason, marked ones (ECN), ACKs that gave way", series, 8, packets, []query{
					{`rate(weir_class_drops_packets_total{` + ofClass + `}[$__rate_interval])`, "{{workload}}: {{reason}}"}, {`rate(weir_class_marked_packets_total{` + ofClass + `}[$__rate_interval])`, "{{workload}}: marked"},
					{`rate(weir_class_thinned_packets_total{` + ofClass + `}[$__rate_interval])`, "{{workload}}: ACKs"}}},
				{"Sent packets", series, 8, packets, []query{{`rate(weir_class_transmit_packets_total{` + ofClass + `}[$__rate_interval])`, "{{workload}} {{direction}}"}}},
			}},
		}},
}
