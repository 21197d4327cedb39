// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// iperf is the part of iperf3's JSON that is looked at.
type iperf struct {
	Intervals []struct {
		Sum struct {
			Start       float64 `json:"start"`
			End         float64 `json:"end"`
			Retransmits uint64  `json:"retransmits"`
			JitterMs    float64 `json:"jitter_ms"`
			Lost        int64   `json:"lost_packets"` // -1 happens after reordering
			Packets     uint64  `json:"packets"`
		} `json:"sum"`
	} `json:"intervals"`
	Error string `json:"error"`
}

// parseIperf reads the documents that one run printed: a server that serves
// several tests prints one for each.
func parseIperf(out []byte) ([]iperf, error) {
	var list []iperf
	d := json.NewDecoder(bytes.NewReader(out))
	for {
		var doc iperf
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, fmt.Errorf("iperf3 printed no JSON: %w", err)
		}
		list = append(list, doc)
	}
}

// merge joins both ends' accounts: loss and jitter as the receiver saw
// them, retransmits as only the sender knows them.
func merge(began time.Duration, client, server iperf) []IperfInterval {
	at := func(seconds float64) time.Duration {
		return began + time.Duration(seconds*float64(time.Second))
	}
	var list []IperfInterval
	for i, in := range server.Intervals {
		s := in.Sum
		if s.End <= s.Start {
			continue
		}
		v := IperfInterval{
			From: at(s.Start), To: at(s.End), Packets: s.Packets,
			Lost: uint64(max(0, s.Lost)), Jitter: time.Duration(s.JitterMs * float64(time.Millisecond)),
		}
		if i < len(client.Intervals) {
			v.Retransmits = client.Intervals[i].Sum.Retransmits
		}
		list = append(list, v)
	}
	return list
}

var pingLine = regexp.MustCompile(`^\[(\d+)\.(\d{6})\] .*icmp_seq=(\d+) .*time=([0-9.]+) ms`)

// parsePing reads the answers from the output of ping -D. zero is the wall clock
// at the beginning of the scenario.
func parsePing(out string, zero time.Time) []Ping {
	var list []Ping
	for line := range strings.Lines(out) {
		m := pingLine.FindStringSubmatch(line)
		if m == nil || strings.Contains(line, "(DUP!)") {
			continue
		}
		sec, _ := strconv.ParseInt(m[1], 10, 64) // digits only, so that nothing can fail but the range
		usec, _ := strconv.ParseInt(m[2], 10, 64)
		seq, _ := strconv.Atoi(m[3])
		ms, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			continue
		}
		list = append(list, Ping{
			At:  time.Unix(sec, usec*1000).Sub(zero),
			Seq: seq,
			RTT: time.Duration(ms * float64(time.Millisecond)),
		})
	}
	return list
}

// netperfSelectors are the figures that netperf is asked for, in this order.
const netperfSelectors = "P50_LATENCY,P99_LATENCY,MEAN_LATENCY,MAX_LATENCY,TRANSACTION_RATE"

// parseNetperf reads the line of figures that netperf -P 0 -- -o prints.
func parseNetperf(out string) (*RR, error) {
	lines := strings.Fields(strings.TrimSpace(out))
	if len(lines) == 0 {
		return nil, errors.New("netperf printed nothing")
	}
	cells := strings.Split(lines[len(lines)-1], ",")
	if len(cells) != 5 {
		return nil, fmt.Errorf("netperf printed %q, not %s", strings.TrimSpace(out), netperfSelectors)
	}
	var v [5]float64
	for i, c := range cells {
		var err error
		if v[i], err = strconv.ParseFloat(c, 64); err != nil {
			return nil, fmt.Errorf("netperf printed %q, not %s", strings.TrimSpace(out), netperfSelectors)
		}
	}
	if v[4] == 0 {
		return nil, errors.New("netperf got no answers; by UDP it waits for ever for one that was lost")
	}
	us := func(f float64) time.Duration { return time.Duration(f * float64(time.Microsecond)) }
	return &RR{P50: us(v[0]), P99: us(v[1]), Mean: us(v[2]), Most: us(v[3]), Rate: v[4]}, nil
}
