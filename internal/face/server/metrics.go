// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/internal/api"
	"weir/internal/base/version"
	"weir/internal/core/event"
	"weir/internal/core/workload"
)

// snapshot is the content of one scrape: both parts are read once.
type snapshot struct {
	status    api.Status
	workloads []api.Workload
	refusals  map[string]uint64 // by kind
}

// emit takes one value with the values of the metric's labels, in their order.
type emit func(value float64, labels ...string)

// metric is one line of the table below.
type metric struct {
	name   string
	unit   string // for the docs; the name carries it too
	help   string
	kind   prometheus.ValueType
	labels []string
	read   func(snapshot, emit)
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

var (
	linkLabels  = []string{"link", "direction"}
	classLabels = []string{"link", "direction", "workload", "class"}
	queueLabels = []string{"link", "direction", "workload", "class", "queue"}
	groupLabels = []string{"link", "direction", "group", "class"}
)

// metrics is everything that Weir counts or measures: the one place that the
// scrape and docs/metrics.md are made from.
var metrics = []metric{
	{"weir_build_info", "", "Always 1; which build of Weir this is.", gauge,
		[]string{"version", "commit", "go_version"}, func(_ snapshot, out emit) {
			v := version.Get()
			out(1, v.Version, v.Commit, v.Go)
		}},
	{"weir_agent_start_time_seconds", "seconds", "When the agent was started, Unix time.", gauge,
		nil, func(s snapshot, out emit) { out(float64(s.status.Started.UnixNano()) / 1e9) }},
	{"weir_config_reloads_total", "", "Times that the configuration file was read again, by whether it was right.", counter,
		[]string{"result"}, func(s snapshot, out emit) {
			out(float64(s.status.Reloads.OK), "ok")
			out(float64(s.status.Reloads.Failed), "failed")
		}},
	{"weir_config_reload_success_time_seconds", "seconds", "When the configuration in force was read, Unix time.", gauge,
		nil, func(s snapshot, out emit) { out(float64(s.status.Reloads.LastOK.UnixNano()) / 1e9) }},
	{"weir_refusals_total", "", "Requests for a change that were not granted, by kind: input, unknown (name), conflict (no room, name taken), role, busy, failed.", counter,
		[]string{"kind"}, func(s snapshot, out emit) {
			for _, kind := range slices.Sorted(maps.Keys(s.refusals)) {
				out(float64(s.refusals[kind]), kind)
			}
		}},
	{"weir_source_up", "", "1 if workloads are seen by this source (docker, netns, device, vm, cgroup, pod), else 0.", gauge,
		[]string{"source"}, func(s snapshot, out emit) {
			for _, src := range s.status.Sources {
				if src.State != workload.SourceOff && src.State != workload.SourceNone {
					out(truth(src.State == workload.SourceOK), src.Name)
				}
			}
		}},

	{"weir_events_total", "", "Conditions that have begun, by kind (docs/events.md).", counter,
		[]string{"kind"}, func(s snapshot, out emit) { perKind(s.status.Events.Begun, out) }},
	{"weir_events_open", "", "Conditions that hold now, by kind.", gauge,
		[]string{"kind"}, func(s snapshot, out emit) { perKind(s.status.Events.Open, out) }},
	{"weir_problems", "", "What is wrong now, by kind (docs/events.md): the problems that weir status lists, each with its number of workloads, links or files. 0 everywhere: all is well.", gauge,
		[]string{"kind", "severity"}, func(s snapshot, out emit) {
			counts := map[string]int{}
			for _, p := range s.status.Problems {
				counts[p.Kind] += p.Count
			}
			for _, k := range event.Kinds {
				if k.Severity != event.Notice {
					out(float64(counts[k.Name]), k.Name, k.Severity)
				}
			}
		}},
	perSink("weir_events_delivered_total", "Events that the webhook or the command has taken.", counter,
		func(s api.EventSink) float64 { return float64(s.Delivered) }),
	perSink("weir_events_undelivered_total", "Events that were given up: refused, an hour old, or out of a full queue.", counter,
		func(s api.EventSink) float64 { return float64(s.Undelivered) }),
	perSink("weir_events_waiting", "Events that it has not taken yet.", gauge,
		func(s api.EventSink) float64 { return float64(s.Waiting) }),

	{"weir_cluster_refused_calls_total", "", "Calls of other nodes and orders in the manager's name that this host refused, by reason.", counter,
		[]string{"reason"}, func(s snapshot, out emit) {
			if s.status.Cluster == nil {
				return
			}
			for _, reason := range slices.Sorted(maps.Keys(s.status.Cluster.Refused)) {
				out(float64(s.status.Cluster.Refused[reason]), reason)
			}
		}},

	{"weir_link_info", "", "Always 1; how the link is steered.", gauge,
		[]string{"link", "direction", "backend", "scheduler"}, func(s snapshot, out emit) {
			for _, l := range s.status.Links {
				out(1, l.Device, l.Direction, l.Backend, l.Scheduler)
			}
		}},
	perLink("weir_link_up", "", "1 if the link is steered, 0 if weir status names an error.",
		func(l api.LinkStatus) float64 { return truth(l.Error == "") }),
	perLink("weir_link_gaps", "", "Promises that the link's backend cannot hold on this kernel; weir status names them.",
		func(l api.LinkStatus) float64 { return float64(len(l.Gaps)) }),
	perLink("weir_link_capacity_bits_per_second", "bits per second", "Rate that the link's workloads share, on the wire.",
		func(l api.LinkStatus) float64 { return float64(l.CapacityBps) }),
	perLink("weir_link_reserved_bits_per_second", "bits per second", "Sum of the mins.",
		func(l api.LinkStatus) float64 { return float64(l.ReservedBps) }),
	perLink("weir_link_free_bits_per_second", "bits per second", "What mins may still take.",
		func(l api.LinkStatus) float64 { return float64(l.FreeBps) }),
	linkTotal("weir_link_transmit_bytes_total", "bytes", "Sent by the link, on the wire, also by workloads that are gone; a device's egress carries what its zones send.",
		func(l api.LinkStatus) float64 { return float64(l.SentBytes) }),
	linkTotal("weir_link_transmit_packets_total", "packets", "The same in packets.",
		func(l api.LinkStatus) float64 { return float64(l.SentPackets) }),
	perLink("weir_link_workloads", "", "Workloads on the link.",
		func(l api.LinkStatus) float64 { return float64(l.Workloads) }),

	perClass("weir_class_transmit_bytes_total", "bytes", "Sent to the device, or for ingress to the workload, on the wire.", counter,
		func(_ api.Workload, l api.WorkloadLink) float64 { return float64(l.SentBytes) }),
	perClass("weir_class_transmit_packets_total", "packets", "Sent to the device, or for ingress to the workload.", counter,
		func(_ api.Workload, l api.WorkloadLink) float64 { return float64(l.SentPackets) }),
	{"weir_class_drops_packets_total", "packets", "Dropped instead of queued, by reason.", counter,
		slices.Concat(classLabels, []string{"reason"}), func(s snapshot, out emit) {
			eachClass(s, func(w api.Workload, l api.WorkloadLink, labels []string) {
				for reason, n := range l.Drops {
					out(float64(n), append(labels, reason)...)
				}
			})
		}},
	perClass("weir_class_marked_packets_total", "packets", "Marked CE in place of a drop (ECN), among those sent.", counter,
		func(_ api.Workload, l api.WorkloadLink) float64 { return float64(l.MarkedPackets) }),
	perClass("weir_class_thinned_packets_total", "packets", "TCP ACKs that gave way to newer ones (ack-filter); they count nowhere else.", counter,
		func(_ api.Workload, l api.WorkloadLink) float64 { return float64(l.ThinnedPackets) }),
	perClass("weir_class_backlog_bytes", "bytes", "Waiting in the workload's queue now.", gauge,
		func(_ api.Workload, l api.WorkloadLink) float64 { return float64(l.BacklogBytes) }),
	perClass("weir_class_backlog_packets", "packets", "Waiting in the workload's queue now.", gauge,
		func(_ api.Workload, l api.WorkloadLink) float64 { return float64(l.BacklogPackets) }),
	perClass("weir_class_ideal_bits_per_second", "bits per second", "Rate that the contract gives the workload now, from the demand of all.", gauge,
		func(_ api.Workload, l api.WorkloadLink) float64 { return l.IdealBps }),
	perScore("weir_class_wanted_seconds_total", "Seconds in which packets of the workload waited, long enough to tell whether it got what it is promised meanwhile.",
		func(s api.Score) float64 { return float64(s.WantedSecondsTotal) }),
	perScore("weir_class_kept_seconds_total", "Those of them in which it got its min, or its share if it has no min.",
		func(s api.Score) float64 { return float64(s.KeptSecondsTotal) }),
	perClass("weir_class_min_bits_per_second", "bits per second", "Guaranteed rate, 0 = none.", gauge,
		func(_ api.Workload, l api.WorkloadLink) float64 { return float64(l.MinBps) }),
	{"weir_class_max_bits_per_second", "bits per second", "Ceiling; no series where there is none.", gauge,
		classLabels, func(s snapshot, out emit) {
			eachClass(s, func(_ api.Workload, l api.WorkloadLink, labels []string) {
				if l.MaxBps != 0 {
					out(float64(l.MaxBps), labels...)
				}
			})
		}},
	perClass("weir_class_weight", "", "Weight, 1 to 10000.", gauge,
		func(w api.Workload, l api.WorkloadLink) float64 { return float64(w.Policy.In(l.Direction).Weight) }),

	perReservation("weir_class_reserve_bits_per_second", "Goodput that is held for the workload, in payload.",
		func(l api.WorkloadLink) (float64, bool) { return float64(l.ReserveBps), true }),
	perReservation("weir_class_goodput_bits_per_second", "Payload delivered over the last second; only where there is a reservation and it is measured.",
		func(l api.WorkloadLink) (float64, bool) {
			if l.GoodputBps == nil {
				return 0, false
			}
			return *l.GoodputBps, true
		}),
	{"weir_class_control_info", "", "Always 1; what the controller of the reservation does: moving, settled, bounded, limited, waiting, unmeasured, frozen or open.", gauge,
		slices.Concat(classLabels, []string{"state"}), func(s snapshot, out emit) {
			eachClass(s, func(_ api.Workload, l api.WorkloadLink, labels []string) {
				if l.ReserveBps != 0 {
					out(1, append(labels, l.Control)...)
				}
			})
		}},

	perQueue("weir_queue_transmit_bytes_total", "bytes", "Sent from one queue inside a workload, on the wire.", counter,
		func(q api.QueueTraffic) float64 { return float64(q.SentBytes) }),
	perQueue("weir_queue_transmit_packets_total", "packets", "Sent from the queue.", counter,
		func(q api.QueueTraffic) float64 { return float64(q.SentPackets) }),
	{"weir_queue_drops_packets_total", "packets", "Dropped from or before the queue, by reason.", counter,
		slices.Concat(queueLabels, []string{"reason"}), func(s snapshot, out emit) {
			eachQueue(s, func(q api.QueueTraffic, labels []string) {
				for reason, n := range q.Drops {
					out(float64(n), append(labels, reason)...)
				}
			})
		}},
	perQueue("weir_queue_backlog_bytes", "bytes", "Waiting in the queue now.", gauge,
		func(q api.QueueTraffic) float64 { return float64(q.BacklogBytes) }),
	perQueue("weir_queue_backlog_packets", "packets", "Waiting in the queue now.", gauge,
		func(q api.QueueTraffic) float64 { return float64(q.BacklogPackets) }),

	perGroup("weir_group_ideal_bits_per_second", "bits per second", "Rate that the contract gives the group now, from the demand of all.", gauge,
		func(_ api.Group, l api.WorkloadLink) float64 { return l.IdealBps }),
	perGroup("weir_group_min_bits_per_second", "bits per second", "Rate that the group reserves: its min, or its members' together.", gauge,
		func(_ api.Group, l api.WorkloadLink) float64 { return float64(l.MinBps) }),
	{"weir_group_max_bits_per_second", "bits per second", "Ceiling; no series where there is none.", gauge,
		groupLabels, func(s snapshot, out emit) {
			eachGroup(s, func(_ api.Group, l api.WorkloadLink, labels []string) {
				if l.MaxBps != 0 {
					out(float64(l.MaxBps), labels...)
				}
			})
		}},
	perGroup("weir_group_weight", "", "Weight, 1 to 10000.", gauge,
		func(g api.Group, _ api.WorkloadLink) float64 { return float64(g.Policy.Weight) }),

	{"weir_policy_not_held", "", "Always 1; a part of a policy that the link's backend does not hold on this kernel: of which workload, group or link, which field, and whether that was accepted (accept_gaps).", gauge,
		[]string{"link", "direction", "kind", "name", "field", "accepted"}, func(s snapshot, out emit) {
			each := func(kind, name string, gaps []api.PolicyGap) {
				for _, g := range gaps {
					out(1, g.Device, g.Direction, kind, name, g.Field, strconv.FormatBool(g.Accepted))
				}
			}
			for _, l := range s.status.Links {
				each("link", l.Device, l.NotHeld)
			}
			for _, w := range s.workloads {
				each("workload", w.Name, w.NotHeld)
			}
			for _, g := range s.status.Groups {
				each("group", g.Name, g.NotHeld)
			}
		}},
	{"weir_workload_info", "", "Always 1; what the workload is, whether it is steered (state active), its group and its discipline.", gauge,
		[]string{"workload", "key", "kind", "state", "group", "discipline"}, func(s snapshot, out emit) {
			for _, w := range s.workloads {
				out(1, w.Name, w.Key, w.Kind, w.State, w.Policy.Group, string(w.Policy.Discipline.OrDefault()))
			}
		}},
	{"weir_pod_info", "", "Always 1; namespace and pod of a workload that is a pod of Kubernetes, to join with the other series by workload. One series for each pod of the node.", gauge,
		[]string{"workload", "namespace", "pod"}, func(s snapshot, out emit) {
			for _, w := range s.workloads {
				if namespace, pod, both := strings.Cut(w.Name, "/"); both && w.Kind == workload.KindPod {
					out(1, w.Name, namespace, pod)
				}
			}
		}},
}

// perKind returns a value for each kind of event.
func perKind(values map[string]uint64, out emit) {
	for _, kind := range slices.Sorted(maps.Keys(values)) {
		out(float64(values[kind]), kind)
	}
}

// perSink returns a metric of each way by which events leave the host.
func perSink(name, help string, kind prometheus.ValueType, value func(api.EventSink) float64) metric {
	return metric{name, "", help, kind, []string{"sink"}, func(s snapshot, out emit) {
		for _, sink := range s.status.Events.Sinks {
			out(value(sink), sink.Name)
		}
	}}
}

func perLink(name, unit, help string, value func(api.LinkStatus) float64) metric {
	return metric{name, unit, help, gauge, linkLabels, func(s snapshot, out emit) {
		for _, l := range s.status.Links {
			out(value(l), l.Device, l.Direction)
		}
	}}
}

// linkTotal returns a counter of the links that are steered; of another one it is not known.
func linkTotal(name, unit, help string, value func(api.LinkStatus) float64) metric {
	return metric{name, unit, help, counter, linkLabels, func(s snapshot, out emit) {
		for _, l := range s.status.Links {
			if l.Backend != "none" {
				out(value(l), l.Device, l.Direction)
			}
		}
	}}
}

func perClass(name, unit, help string, kind prometheus.ValueType, value func(api.Workload, api.WorkloadLink) float64) metric {
	return metric{name, unit, help, kind, classLabels, func(s snapshot, out emit) {
		eachClass(s, func(w api.Workload, l api.WorkloadLink, labels []string) { out(value(w, l), labels...) })
	}}
}

// perReservation returns a gauge of the workloads that have one.
func perReservation(name, help string, value func(api.WorkloadLink) (float64, bool)) metric {
	return metric{name, "bits per second", help, gauge, classLabels, func(s snapshot, out emit) {
		eachClass(s, func(_ api.Workload, l api.WorkloadLink, labels []string) {
			if v, known := value(l); known && l.ReserveBps != 0 {
				out(v, labels...)
			}
		})
	}}
}

// perScore returns a counter of the workloads that have a promise score.
func perScore(name, help string, value func(api.Score) float64) metric {
	return metric{name, "seconds", help, counter, classLabels, func(s snapshot, out emit) {
		eachClass(s, func(_ api.Workload, l api.WorkloadLink, labels []string) {
			if l.Score != nil {
				out(value(*l.Score), labels...)
			}
		})
	}}
}

// eachClass visits every workload on every link; labels match classLabels.
func eachClass(s snapshot, visit func(w api.Workload, l api.WorkloadLink, labels []string)) {
	for _, w := range s.workloads {
		for _, l := range w.Links {
			visit(w, l, []string{l.Device, l.Direction, w.Name, fmt.Sprint(w.Class)})
		}
	}
}

func perQueue(name, unit, help string, kind prometheus.ValueType, value func(api.QueueTraffic) float64) metric {
	return metric{name, unit, help, kind, queueLabels, func(s snapshot, out emit) {
		eachQueue(s, func(q api.QueueTraffic, labels []string) { out(value(q), labels...) })
	}}
}

// eachQueue visits every queue inside a workload; labels match queueLabels.
func eachQueue(s snapshot, visit func(q api.QueueTraffic, labels []string)) {
	eachClass(s, func(_ api.Workload, l api.WorkloadLink, labels []string) {
		for _, q := range l.Queues {
			visit(q, append(slices.Clone(labels), q.Name))
		}
	})
}

func perGroup(name, unit, help string, kind prometheus.ValueType, value func(api.Group, api.WorkloadLink) float64) metric {
	return metric{name, unit, help, kind, groupLabels, func(s snapshot, out emit) {
		eachGroup(s, func(g api.Group, l api.WorkloadLink, labels []string) { out(value(g, l), labels...) })
	}}
}

// eachGroup visits every group on every link; labels match groupLabels.
func eachGroup(s snapshot, visit func(g api.Group, l api.WorkloadLink, labels []string)) {
	for _, g := range s.status.Groups {
		for _, l := range g.Links {
			visit(g, l, []string{l.Device, l.Direction, g.Name, fmt.Sprint(g.Class)})
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// metricsDoc returns docs/metrics.md; a test holds it in step with the table.
func metricsDoc() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" +
		"Prometheus scrapes `/metrics`, on the unix socket and, where `metrics:` in weir.yaml gives a host:port, on TCP: in clear on the loopback,\n" +
		"anywhere else by TLS only ([deploy.md](deploy.md#6-prometheus)).\n" +
		"A scrape sees one snapshot of every class. Rates are wire rates; direction is egress (what leaves a workload: upload) or ingress\n(what comes to it: download).\n" +
		"This page is made from the table in internal/face/server/metrics.go: `go test ./internal/face/server -update`.\n\n" +
		"| name | type | labels | unit | meaning |\n|---|---|---|---|---|\n")
	for _, m := range metrics {
		kind := "gauge"
		if m.kind == counter {
			kind = "counter"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.name, kind, strings.Join(m.labels, ", "), m.unit, m.help)
	}
	for _, h := range histograms {
		fmt.Fprintf(&b, "| `%s` | histogram | %s | %s | %s |\n", h.name, strings.Join(h.labels, ", "), h.unit, h.help)
	}
	b.WriteString("\nA histogram is a classic and a native one: Prometheus takes the second where `scrape_native_histograms` says so.\n" +
		"Its counts are of packets, not of samples ([qdisc.md](qdisc.md#delays)).\n")
	b.WriteString("\nBeside these come the usual `go_*` and `process_*` of the agent itself.\n\n" +
		"## Queries to begin with\n\n```\n" +
		"# rate of each workload, bits per second\n" +
		"rate(weir_class_transmit_bytes_total[1m]) * 8\n\n" +
		"# rate of each group, bits per second\n" +
		"sum by (link, direction, group) (rate(weir_class_transmit_bytes_total[1m]) * 8\n" +
		"  * on (workload) group_left (group) weir_workload_info{group!=\"\"})\n\n" +
		"# how full each link is, 0 to 1\n" +
		"rate(weir_link_transmit_bytes_total[1m]) * 8 / weir_link_capacity_bits_per_second\n\n" +
		"# how close each workload is to its max, 0 to 1; those without a max have no series\n" +
		"rate(weir_class_transmit_bytes_total[1m]) * 8 / weir_class_max_bits_per_second\n\n" +
		"# the configuration file is wrong, and the one before it in force\n" +
		"increase(weir_config_reloads_total{result=\"failed\"}[10m]) > 0\n\n" +
		"# p99 of the time that packets waited, of each workload\n" +
		"histogram_quantile(0.99, rate(weir_class_delay_seconds[1m])) # native\n" +
		"histogram_quantile(0.99, sum by (le, link, direction, workload) (rate(weir_class_delay_seconds_bucket[1m]))) # classic\n\n" +
		"# workloads that stay below what they were promised while their packets wait: seconds of two minutes\n" +
		"increase(weir_class_wanted_seconds_total[2m]) - increase(weir_class_kept_seconds_total[2m]) > 6\n```\n")
	return b.String()
}
