// SPDX-License-Identifier: Apache-2.0

// Package monitoring makes what people look at Weir with in Prometheus and Grafana, out of the
// table of metrics in package server: two dashboards, the alert and recording rules, and
// promtool's test of the rules. Example: the panel
//
//	{"Shares", stack, 12, bits, []query{{`weir:class_transmit:bps{...}`, "{{workload}} {{direction}}"}}}
//
// becomes a time series with the unit of its kind and the help of its metrics. Each query may
// name metrics and labels of the table, or recorded series, and nothing else.
//
//	go test ./internal/face/server/monitoring -update     # writes deploy/monitoring
//	scripts/test-monitoring                          # a real Prometheus and a real agent
//
// It knows nothing about Grafana beyond the JSON of a dashboard, and is in no program.
package monitoring
