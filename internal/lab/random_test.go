// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"weir/internal/lab/report"
	"weir/internal/lab/scenario"
)

// Every seed must give a scenario that the parser admits: mins that fit, no min
// above its max, in both phases.
func TestRandomIsValidAndRepeats(t *testing.T) {
	mixes := []Mix{"", OfGroups, OfZones}
	for n := range uint64(6000) {
		seed, mix := n/3, mixes[n%3]
		data := Random(seed, mix)
		if _, err := scenario.Parse("random.yaml", data); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, data)
		}
		if !bytes.Equal(data, Random(seed, mix)) {
			t.Fatalf("seed %d gives two scenarios", seed)
		}
	}
}

// A workload that is too small to be missed on the link is judged by its own min.
func TestRandomMissesTheSmall(t *testing.T) {
	const text = `link: {bandwidth: 100mbit}
workloads:
  big: {weight: 1000, max: 99mbit, traffic: [{tcp: {}}]}
  small: {min: 1mbit, traffic: [{tcp: {}}]}
phases: [{for: 4s}]
`
	s, err := scenario.Parse("test.yaml", []byte(text+expectPromise))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name       string
		big, small float64 // Mbit/s
		failure    string
	}{
		{"as promised", 99, 1, ""},
		{"starved", 99, 0, "small: rate 0 bit/s is below its min of 1 Mbit/s"},
		{"short by 5 %", 99, 0.95, "small: rate 950 kbit/s is below its min of 1 Mbit/s"},
		{"above a max", 101.5, 1, "big: rate 102 Mbit/s is above its max of 99 Mbit/s"},
	} {
		var m report.Measurement
		m.Scheduler = "fair"
		for _, mbit := range []float64{tt.big, tt.small} {
			row := make([]uint64, 4*time.Second/scenario.Bucket)
			for b := range row {
				row[b] = uint64(mbit * 1e6 / 8 * scenario.Bucket.Seconds())
			}
			m.Timeline.Bytes, m.Timeline.Packets = append(m.Timeline.Bytes, row), append(m.Timeline.Packets, row)
		}
		got := strings.Join(report.Evaluate(s, m).Failures, "\n")
		if tt.failure == "" && got != "" || !strings.Contains(got, tt.failure) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.failure)
		}
	}
}
