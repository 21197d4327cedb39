// SPDX-License-Identifier: Apache-2.0

package monitoring

// recording is a series that Prometheus computes and keeps.
type recording struct{ name, expr, help string }

// recorded are the recording rules: what dashboards and alerts ask for again and again.
var recorded = []recording{
	{"weir:class_transmit:bps", "rate(weir_class_transmit_bytes_total[1m]) * 8", "Rate of a workload on a link over a minute, bits per second on the wire."},
	{"weir:link_used:ratio", "rate(weir_link_transmit_bytes_total[1m]) * 8 / weir_link_capacity_bits_per_second",
		"Part of a link's capacity that is used, 0 to 1."},
	{"weir:class_drops:ratio", "sum by (instance, job, link, direction, workload, class) (rate(weir_class_drops_packets_total[1m])) / (sum by (instance, job, link, direction, workload, class) (rate(weir_class_drops_packets_total[1m])) + sum by (instance, job, link, direction, workload, class) (rate(weir_class_transmit_packets_total[1m])))",
		"Part of a workload's packets that is dropped, 0 to 1; none where it sends nothing."},
}

// alert is one alert rule with its test: Bad are series with which it fires, Good others with
// which it does not, each in promtool's notation of a value every 30 s.
type alert struct {
	name, expr, wait, severity string
	summary, remedy            string
	bad, good                  map[string]string
	labels                     map[string]string // of the alert that fires
	said                       string            // the summary of that alert
}

const (
	onEth0 = `instance="h",job="weir",link="eth0",direction="egress"`
	ofWeb  = onEth0 + `,workload="web",class="1"`
)

var (
	eth0Labels = map[string]string{"instance": "h", "job": "weir", "link": "eth0", "direction": "egress"}
	webLabels  = map[string]string{"instance": "h", "job": "weir", "link": "eth0", "direction": "egress", "workload": "web", "class": "1"}
)

// alerts are the alert rules.
var alerts = []alert{
	{"WeirAgentDown", `up{job="weir"} == 0`, "2m", "critical",
		"the agent on {{ $labels.instance }} does not answer; the kernel goes on with the last shares, new workloads are not seen", "systemctl status weir; journalctl -u weir",
		map[string]string{`up{instance="h",job="weir"}`: "0x45"}, map[string]string{`up{instance="h",job="weir"}`: "1x45"},
		map[string]string{"instance": "h", "job": "weir"}, "the agent on h does not answer; the kernel goes on with the last shares, new workloads are not seen"},
	{"WeirLinkNotSteered", `weir_link_up == 0`, "1m", "critical",
		"{{ $labels.link }} ({{ $labels.direction }}) on {{ $labels.instance }} is not steered", "weir status names the reason, weir doctor what is in its way",
		map[string]string{`weir_link_up{` + onEth0 + `}`: "0x45"}, map[string]string{`weir_link_up{` + onEth0 + `}`: "1x45"},
		eth0Labels, "eth0 (egress) on h is not steered"},
	{"WeirLinkDown", `weir_events_open{kind="link-down"} > 0`, "1m", "critical",
		"{{ $value }} links on {{ $labels.instance }} are down or have no carrier", "weir status names them; look at the cable, and at the other end",
		map[string]string{`weir_events_open{instance="h",job="weir",kind="link-down"}`: "1x45"}, map[string]string{`weir_events_open{instance="h",job="weir",kind="link-down"}`: "0x45"},
		map[string]string{"instance": "h", "job": "weir", "kind": "link-down"}, "1 links on h are down or have no carrier"},
	{"WeirMinNotMet", `increase(weir_class_wanted_seconds_total[2m]) - increase(weir_class_kept_seconds_total[2m]) > 6 and weir_class_min_bits_per_second > 0`, "2m", "critical",
		"{{ $labels.workload }} waits with packets on {{ $labels.link }} ({{ $labels.direction }}) of {{ $labels.instance }} and got less than its min in {{ $value | humanize }} s of 2 minutes", "weir explain {{ $labels.workload }}; weir status --gaps",
		map[string]string{`weir_class_wanted_seconds_total{` + ofWeb + `}`: "0+30x45", `weir_class_kept_seconds_total{` + ofWeb + `}`: "0+20x45", `weir_class_min_bits_per_second{` + ofWeb + `}`: "10000000x45"},
		map[string]string{`weir_class_wanted_seconds_total{` + ofWeb + `}`: "0+30x45", `weir_class_kept_seconds_total{` + ofWeb + `}`: "0+29x45", `weir_class_min_bits_per_second{` + ofWeb + `}`: "10000000x45"},
		webLabels, "web waits with packets on eth0 (egress) of h and got less than its min in 40 s of 2 minutes"},
	{"WeirPolicyNotInForce", `max by (instance, job, workload) (weir_workload_info{state="refused"}) == 1`, "5m", "warning",
		"a part of the policy of {{ $labels.workload }} on {{ $labels.instance }} is not in force", "weir get {{ $labels.workload }} says which and why",
		map[string]string{`weir_workload_info{instance="h",job="weir",workload="web",state="refused"}`: "1x45"}, map[string]string{`weir_workload_info{instance="h",job="weir",workload="web",state="active"}`: "1x45"},
		map[string]string{"instance": "h", "job": "weir", "workload": "web"}, "a part of the policy of web on h is not in force"},
	{"WeirPolicyNotHeld", `weir_policy_not_held{accepted="false"} == 1`, "5m", "warning",
		"{{ $labels.field }} of {{ $labels.name }} is not held by the kernel of {{ $labels.instance }}", "take it out, accept it with accept_gaps, or use a kernel with BPF qdiscs",
		map[string]string{`weir_policy_not_held{instance="h",job="weir",name="web",field="group",accepted="false"}`: "1x45"}, map[string]string{`weir_policy_not_held{instance="h",job="weir",name="web",field="group",accepted="true"}`: "1x45"},
		map[string]string{"instance": "h", "job": "weir", "name": "web", "field": "group", "accepted": "false"}, "group of web is not held by the kernel of h"},
	{"WeirDrops", `weir:class_drops:ratio > 0.1`, "5m", "warning",
		"{{ $labels.workload }} loses {{ $value | humanizePercentage }} of its packets on {{ $labels.link }} ({{ $labels.direction }}) of {{ $labels.instance }}", "weir explain {{ $labels.workload }} says why",
		map[string]string{`weir_class_transmit_packets_total{` + ofWeb + `}`: "0+600x45", `weir_class_drops_packets_total{` + ofWeb + `,reason="aqm"}`: "0+200x45"},
		map[string]string{`weir_class_transmit_packets_total{` + ofWeb + `}`: "0+600x45", `weir_class_drops_packets_total{` + ofWeb + `,reason="aqm"}`: "0+6x45"},
		webLabels, "web loses 25% of its packets on eth0 (egress) of h"},
	{"WeirSourceDown", `weir_source_up == 0`, "5m", "warning",
		"{{ $labels.instance }} sees no new workloads of {{ $labels.source }}", "weir status says why; if it is not used there, switch it off in weir.yaml",
		map[string]string{`weir_source_up{instance="h",job="weir",source="docker"}`: "0x45"}, map[string]string{`weir_source_up{instance="h",job="weir",source="docker"}`: "1x45"},
		map[string]string{"instance": "h", "job": "weir", "source": "docker"}, "h sees no new workloads of docker"},
	{"WeirConfigWrong", `weir_events_open{kind="config-wrong"} > 0`, "5m", "warning",
		"weir.yaml on {{ $labels.instance }} has a mistake; the configuration before it is in force", "weir config check",
		map[string]string{`weir_events_open{instance="h",job="weir",kind="config-wrong"}`: "1x45"}, map[string]string{`weir_events_open{instance="h",job="weir",kind="config-wrong"}`: "0x45"},
		map[string]string{"instance": "h", "job": "weir", "kind": "config-wrong"}, "weir.yaml on h has a mistake; the configuration before it is in force"},
	{"WeirUnwritable", `weir_events_open{kind="unwritable"} > 0`, "0m", "warning",
		"the agent on {{ $labels.instance }} can write nothing in its state folder or in that of its audit log", "weir status says where and why; make room there",
		map[string]string{`weir_events_open{instance="h",job="weir",kind="unwritable"}`: "1x45"}, map[string]string{`weir_events_open{instance="h",job="weir",kind="unwritable"}`: "0x45"},
		map[string]string{"instance": "h", "job": "weir", "kind": "unwritable"}, "the agent on h can write nothing in its state folder or in that of its audit log"},
	{"WeirRestartDue", `weir_events_open{kind="restart-due"} > 0`, "15m", "info",
		"settings of weir.yaml on {{ $labels.instance }} wait for a restart of the agent", "weir status names them; systemctl restart weir",
		map[string]string{`weir_events_open{instance="h",job="weir",kind="restart-due"}`: "1x45"}, map[string]string{`weir_events_open{instance="h",job="weir",kind="restart-due"}`: "0x45"},
		map[string]string{"instance": "h", "job": "weir", "kind": "restart-due"}, "settings of weir.yaml on h wait for a restart of the agent"},
	{"WeirQuotaReached", `weir_events_open{kind="quota-reached"} > 0`, "0m", "info",
		"{{ $value }} workloads or groups on {{ $labels.instance }} have used up their quota", "weir events --open names them",
		map[string]string{`weir_events_open{instance="h",job="weir",kind="quota-reached"}`: "2x45"}, map[string]string{`weir_events_open{instance="h",job="weir",kind="quota-reached"}`: "0x45"},
		map[string]string{"instance": "h", "job": "weir", "kind": "quota-reached"}, "2 workloads or groups on h have used up their quota"},
	{"WeirDisturbed", `weir_events_open{kind="repaired"} > 0`, "10m", "warning",
		"another program changes on {{ $labels.instance }} again and again what Weir has set", "weir events --open says what; find the program and keep it off the device",
		map[string]string{`weir_events_open{instance="h",job="weir",kind="repaired"}`: "1x45"}, map[string]string{`weir_events_open{instance="h",job="weir",kind="repaired"}`: "0x45"},
		map[string]string{"instance": "h", "job": "weir", "kind": "repaired"}, "another program changes on h again and again what Weir has set"},
	{"WeirEventsUndelivered", `increase(weir_events_undelivered_total[15m]) > 0`, "0m", "warning",
		"the {{ $labels.sink }} of {{ $labels.instance }} does not take events", "weir status names its last error",
		map[string]string{`weir_events_undelivered_total{instance="h",job="weir",sink="webhook"}`: "0+1x45"}, map[string]string{`weir_events_undelivered_total{instance="h",job="weir",sink="webhook"}`: "3x45"},
		map[string]string{"instance": "h", "job": "weir", "sink": "webhook"}, "the webhook of h does not take events"},
	{"WeirNoRoomForMins", `weir_link_free_bits_per_second == 0 and weir_link_reserved_bits_per_second > 0`, "15m", "info",
		"{{ $labels.link }} ({{ $labels.direction }}) on {{ $labels.instance }} has no room for another min", "lower a min, or move a workload to another host",
		map[string]string{`weir_link_free_bits_per_second{` + onEth0 + `}`: "0x45", `weir_link_reserved_bits_per_second{` + onEth0 + `}`: "9x45"}, map[string]string{`weir_link_free_bits_per_second{` + onEth0 + `}`: "1x45", `weir_link_reserved_bits_per_second{` + onEth0 + `}`: "9x45"},
		eth0Labels, "eth0 (egress) on h has no room for another min"},
}
