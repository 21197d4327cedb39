// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	"weir/internal/lab/scenario"
)

// Goodput is what the receiving programs could read, by the receiver's own TCP
// (bpf/lab/meter.bpf.c says how), in buckets of 10 ms. What iperf3 says of it is too
// coarse: it counts whole blocks of 128 KiB, which at 3 Mbit/s are a third of a second.

// ethernetHeader is the length of a frame before its IP header, bytes.
const ethernetHeader = 14

// bulk says whether a flow has a goodput: it sends as much as it is told or as it can.
func bulk(f scenario.Flow) bool { return f.Kind == scenario.TCP || f.Kind == scenario.UDP }

// goodputs returns the goodput of each workload's programs in each second.
func (e *evaluation) goodputs() [][]float64 {
	rows := make([][]float64, len(e.s.Workloads))
	for w := range rows {
		rows[w] = e.goodput(w, 0, e.s.Duration(), time.Second)
	}
	return rows
}

// goodput returns the goodput of a workload's programs in each whole step of a window, bits per
// second.
func (e *evaluation) goodput(w int, from, to, step time.Duration) []float64 {
	values := make([]float64, max(0, int((to-from)/step)))
	for n := range values {
		at := from + time.Duration(n)*step
		values[n] = e.payloadRate(e.payloadRows(w), at, at+step)
	}
	return values
}

// meanGoodput is what some rows of the meter say of some flows' goodput in the measured
// part of a phase, bits per second; nil if none of the flows sends in it.
func (e *evaluation) meanGoodput(rows []int, span scenario.Span, of func(scenario.Flow) bool) *float64 {
	if !slices.ContainsFunc(e.flows, func(f scenario.Flow) bool {
		return of(f) && bulk(f) && f.From < span.To && f.To > span.Measured
	}) {
		return nil
	}
	return ptr(e.payloadRate(rows, span.Measured, span.To))
}

// payloadRows are the meter's rows that have a workload's goodput: those of its flows
// that have one, if they are counted by themselves, else its own.
func (e *evaluation) payloadRows(w int) []int {
	if len(e.m.Timeline.Payload) <= len(e.s.Workloads) {
		return []int{w}
	}
	var rows []int
	for _, f := range e.flows {
		if row := len(e.s.Workloads) + f.Entry; f.Workload == w && bulk(f) && !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// entryRows are those of one traffic entry of a workload, whose only one it is if entries
// are not counted by themselves.
func (e *evaluation) entryRows(w, entry int) []int {
	if len(e.m.Timeline.Payload) <= len(e.s.Workloads) {
		return []int{w}
	}
	return []int{len(e.s.Workloads) + entry}
}

// payloadRate is the payload of some rows in a window, bits per second. The window is cut
// to whole buckets.
func (e *evaluation) payloadRate(rows []int, from, to time.Duration) float64 {
	first, last := int(from/scenario.Bucket), int(to/scenario.Bucket)
	if last <= first {
		return 0
	}
	var sum uint64
	for _, row := range rows {
		if row >= len(e.m.Timeline.Payload) {
			continue
		}
		buckets := e.m.Timeline.Payload[row]
		for b := first; b < min(last, len(buckets)); b++ {
			sum += buckets[b]
		}
	}
	return float64(sum) * 8 / (time.Duration(last-first) * scenario.Bucket).Seconds()
}

// headerBytes are what a frame has besides payload: Ethernet, IPv4, and UDP or TCP with
// timestamps, as Linux sends it.
var headerBytes = map[scenario.Kind]float64{scenario.UDP: ethernetHeader + 20 + 8, scenario.TCP: ethernetHeader + 20 + 32}

// wirePayload is what the frames of a workload carried to the receiver in a window: all
// bytes on the wire without the headers, bits per second. Where nothing comes twice it is
// the goodput, measured another way.
func (e *evaluation) wirePayload(w int, span scenario.Span) float64 {
	var sum float64
	var seen []int
	counted := len(e.m.Timeline.Bytes) > len(e.s.Workloads)
	for _, f := range e.flows {
		row := w
		if counted {
			row = len(e.s.Workloads) + f.Entry
		}
		if f.Workload != w || !bulk(f) || slices.Contains(seen, row) {
			continue
		}
		seen = append(seen, row)
		_, packets := e.received(row, span.Measured, span.To)
		sum += e.rate(row, span.Measured, span.To) - float64(packets)*8*headerBytes[f.Kind]/(span.To-span.Measured).Seconds()
	}
	return sum
}
