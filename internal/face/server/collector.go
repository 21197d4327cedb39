// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"weir/internal/api"
	"weir/internal/api/rest"
	"weir/internal/core/delay"
)

const (
	scrapeTimeout = 5 * time.Second
	maxScrapes    = 4 // at once; more are answered with 503
)

// collector turns one snapshot of the agent into metrics at each scrape. It
// keeps nothing between scrapes, so a workload that has gone leaves no series.
type collector struct {
	agent    api.Agent
	refusals func() map[string]uint64 // by kind
	descs    []*prometheus.Desc       // in the order of the table metrics, then of histograms
}

func newCollector(agent api.Agent, refusals func() map[string]uint64) *collector {
	c := &collector{agent: agent, refusals: refusals}
	for _, m := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, m.labels, nil))
	}
	for _, h := range histograms {
		c.descs = append(c.descs, prometheus.NewDesc(h.name, h.help, h.labels, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	snap, err := takeSnapshot(ctx, c.agent)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.descs[0], err)
		return
	}
	snap.refusals = c.refusals()
	for i, m := range metrics {
		m.read(snap, func(value float64, labels ...string) { ch <- constMetric(c.descs[i], m.kind, value, labels) })
	}
	for i, h := range histograms {
		h.read(snap, func(counted *delay.Histogram, labels ...string) {
			ch <- constHistogram(c.descs[len(metrics)+i], counted, labels)
		})
	}
}

// constMetric never panics: a device or a namespace may have any bytes for a
// name, and a collector runs in a goroutine of its own.
func constMetric(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string) prometheus.Metric {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "?")
	}
	m, err := prometheus.NewConstMetric(desc, kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}

func takeSnapshot(ctx context.Context, agent api.Agent) (snapshot, error) {
	status, err := agent.Status(ctx)
	if err != nil {
		return snapshot{}, fmt.Errorf("status of the agent: %w", err)
	}
	workloads, err := agent.Workloads(ctx)
	if err != nil {
		return snapshot{}, fmt.Errorf("workloads of the agent: %w", err)
	}
	return snapshot{status: status, workloads: workloads}, nil
}

// metricsHandler serves Weir's metrics and those of the process.
func (s *Server) metricsHandler(h *rest.API) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		newCollector(s.agent, h.Refusals),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(s.log.Handler(), slog.LevelError),
		ErrorHandling:       promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             2 * scrapeTimeout,
	})
}
