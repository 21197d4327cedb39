// SPDX-License-Identifier: Apache-2.0

package server

import (
	"math"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"weir/internal/api"
	"weir/internal/core/delay"
)

// histogram is one line of the table below.
type histogram struct {
	name, unit, help string
	labels           []string
	read             func(snapshot, func(h *delay.Histogram, labels ...string))
}

// histograms are those of /metrics, beside the table metrics.
var histograms = []histogram{
	{"weir_class_delay_seconds", "seconds", "How long packets that were sent had waited in the link's qdisc, of a part of them drawn at random; no series where the backend does not measure it.",
		classLabels, func(s snapshot, out func(*delay.Histogram, ...string)) {
			eachClass(s, func(_ api.Workload, l api.WorkloadLink, labels []string) {
				if l.Delay != nil {
					out(l.Delay.Total, labels...)
				}
			})
		}},
	{"weir_queue_delay_seconds", "seconds", "The same of the packets of one queue inside a workload.",
		queueLabels, func(s snapshot, out func(*delay.Histogram, ...string)) {
			eachQueue(s, func(q api.QueueTraffic, labels []string) {
				if q.Delay != nil {
					out(q.Delay.Total, labels...)
				}
			})
		}},
}

// delayBuckets are the bounds of a classic histogram: from less than a batch of the scheduler to
// a second.
var delayBuckets = []time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second,
}

// nativeSchema makes a native histogram's buckets 4.4 % wide: a bin of the kernel is 3.1 % wide
// at most.
const nativeSchema = 4

// delayMetric is a histogram for Prometheus, a classic and a native one in one: which of them it
// takes, the scraper says.
type delayMetric struct{ classic, native prometheus.Metric }

// Desc implements prometheus.Metric.
func (m delayMetric) Desc() *prometheus.Desc { return m.native.Desc() }

// Write implements prometheus.Metric.
func (m delayMetric) Write(out *dto.Metric) error {
	var classic dto.Metric
	if err := m.classic.Write(&classic); err != nil {
		return err
	}
	if err := m.native.Write(out); err != nil {
		return err
	}
	out.Histogram.Bucket = classic.Histogram.Bucket
	return nil
}

// constHistogram never panics, as constMetric.
func constHistogram(desc *prometheus.Desc, h *delay.Histogram, labels []string) prometheus.Metric {
	for i, l := range labels {
		labels[i] = strings.ToValidUTF8(l, "?")
	}
	count, sum := h.Count(), h.Sum().Seconds()
	buckets := map[float64]uint64{}
	for _, most := range delayBuckets {
		buckets[most.Seconds()] = h.Within(most)
	}
	classic, err := prometheus.NewConstHistogram(desc, count, sum, buckets, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	zero, positive := nativeBuckets(h)
	native, err := prometheus.NewConstNativeHistogram(desc, count, sum, positive, nil, zero, nativeSchema, delay.Unit.Seconds(), time.Time{}, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(desc, err)
	}
	return delayMetric{classic, native}
}

// nativeBuckets returns the packets of the first bin, which is a native histogram's zero bucket,
// and those of each further bin in the bucket that has the bin's middle.
func nativeBuckets(h *delay.Histogram) (zero uint64, positive map[int]int64) {
	positive = map[int]int64{}
	for bin, packets := range h {
		if bin == 0 || packets == 0 {
			continue
		}
		from, to := delay.Bounds(bin)
		middle := ((from + to) / 2).Seconds()
		positive[int(math.Ceil(math.Log2(middle)*(1<<nativeSchema)))] += int64(packets)
	}
	return h[0], positive
}
