// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"weir/internal/lab/scenario"
)

// flowing returns the samples of a receiver whose workloads get their ideals, with two
// exceptions: nothing arrives in the first second of each phase, and backup gets off more
// (or less) than promised in phase 2, as a share of the link.
func flowing(s *scenario.Scenario, off float64) series {
	list := series{{bytes: make([]uint64, len(s.Workloads))}}
	exact := make([]float64, len(s.Workloads))
	for p, span := range s.Spans() {
		rates := promised(s, p)
		if p == 1 {
			rates[backup] += off * float64(capacity)
		}
		for at := span.From; at < span.To; at += sampleEvery {
			next := sample{at: at + sampleEvery, bytes: make([]uint64, len(exact))}
			for w := range exact {
				if at >= span.Measured {
					exact[w] += rates[w] / 8 * sampleEvery.Seconds()
				}
				next.bytes[w] = uint64(exact[w])
			}
			list = append(list, next)
		}
	}
	return list
}

func TestVerdict(t *testing.T) {
	s := script(4*time.Second, time.Second)
	tests := []struct {
		name    string
		off     float64
		backend string
		broken  string // what the one complaint says, "" = none
	}{
		{"exact", 0, "bpf", ""},
		{"within two percent", -0.019, "bpf", ""},
		{"beyond two percent", -0.021, "bpf", "backup in phase 2 was promised 42 Mbit/s and got 39.9 Mbit/s: off by 2.1 % of the link, more than 2 %"},
		{"the fallback may be off by more", -0.021, "tc", ""},
		{"but not by that much", 0.06, "tc", "backup in phase 2 was promised 42 Mbit/s and got 48 Mbit/s: off by 6.0 % of the link, more than 5 %"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			findings := judge(s, flowing(s, test.off))
			got := strings.Join(broken(s, findings, tolerance(test.backend)), "\n")
			if got != test.broken {
				t.Errorf("got %q, want %q", got, test.broken)
			}
		})
	}
}

// A promise that was broken while processes waited for a CPU says so, of its own phase only.
func TestReasons(t *testing.T) {
	s := script(4*time.Second, time.Second)
	busy := func(off float64) series {
		list := flowing(s, off)
		for i := range list {
			list[i].waited = time.Duration(0.6 * float64(list[i].at))
		}
		return list
	}
	for name, test := range map[string]struct {
		arrived series
		want    string // in the one line, "" = none
	}{
		"busy and broken":        {busy(0.06), "In 60 % of phase 2 some process waited for a CPU."},
		"busy and kept":          {busy(0.04), ""},
		"broken and not counted": {flowing(s, 0.06), ""},
	} {
		lines := reasons(s, test.arrived, judge(s, test.arrived), tolerance("tc"))
		if got := strings.Join(lines, "\n"); test.want == "" && got != "" || !strings.HasPrefix(got, test.want) || len(lines) > 1 {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestTable(t *testing.T) {
	s := script(4*time.Second, time.Second)
	const want = `PHASE                     WORKLOAD  POLICY                   PROMISED      MEASURED      ERROR
1  weights 1, 2 and 3     camera    weight 1                  16.7 Mbit/s   16.7 Mbit/s  +0.00 %
                          web       weight 2                  33.3 Mbit/s   33.3 Mbit/s  +0.00 %
                          backup    weight 3                  50.0 Mbit/s   50.0 Mbit/s  +0.00 %
2  camera: min 30 Mbit/s  camera    weight 1, min 30 Mbit/s   30.0 Mbit/s   30.0 Mbit/s  +0.00 %
                          web       weight 2                  28.0 Mbit/s   28.0 Mbit/s  +0.00 %
                          backup    weight 3                  42.0 Mbit/s   40.0 Mbit/s  -2.00 %
3  backup: max 15 Mbit/s  camera    weight 1, min 30 Mbit/s   30.0 Mbit/s   30.0 Mbit/s  +0.00 %
                          web       weight 2                  55.0 Mbit/s   55.0 Mbit/s  +0.00 %
                          backup    weight 3, max 15 Mbit/s   15.0 Mbit/s   15.0 Mbit/s  +0.00 %
`
	if got := table(s, judge(s, flowing(s, -0.02))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPlotHasOnePointPerStep(t *testing.T) {
	s := script(4*time.Second, time.Second)
	r := result(s, flowing(s, 0), "bpf")
	if len(r.Captions) != len(s.Phases) || len(r.Rates) != len(s.Workloads) {
		t.Fatalf("%d captions, %d rows", len(r.Captions), len(r.Rates))
	}
	for w, row := range r.Rates {
		if len(row) != 120 {
			t.Errorf("%d points of %s, want 120 for 12 s", len(row), s.Workloads[w].Name)
		}
	}
	// What changed at 8 s shows from then on, and not before.
	for point, want := range map[int]float64{79: 28e6, 80: 0, 110: 55e6} {
		if got := r.Rates[web][point]; math.Abs(got-want) > 1e3 {
			t.Errorf("web at point %d: %g bit/s, want %g", point, got, want)
		}
	}
}

// The bytes of two windows that meet are those of both together.
func TestRatesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s series
		var at time.Duration
		var bytes uint64
		for range rapid.IntRange(0, 20).Draw(t, "samples") {
			at += time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "later"))
			bytes += rapid.Uint64Range(0, 1e9).Draw(t, "more")
			s = append(s, sample{at: at, bytes: []uint64{bytes}})
		}
		instant := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(21*time.Second)).Draw(t, "at"))
		})
		a, b, c := instant.Draw(t, "a"), instant.Draw(t, "b"), instant.Draw(t, "c")
		a, b, c = min(a, b, c), max(min(a, b), min(max(a, b), c)), max(a, b, c)
		whole := s.rate(0, a, c) * (c - a).Seconds()
		parts := s.rate(0, a, b)*(b-a).Seconds() + s.rate(0, b, c)*(c-b).Seconds()
		if math.Abs(whole-parts) > 1e-6*(1+whole) {
			t.Errorf("from %v over %v to %v: %g bits, in parts %g", a, b, c, whole, parts)
		}
		if whole < 0 || whole > float64(bytes)*8*(1+1e-9) {
			t.Errorf("%g bits of %d bytes", whole, bytes)
		}
	})
}

func TestWireBytes(t *testing.T) {
	tests := []struct {
		name string
		info unix.TCPInfo
		want uint64
	}{
		{"nothing yet", unix.TCPInfo{Rcv_mss: 1448, Options: tcpiTimestamps}, 0},
		{"full frames", unix.TCPInfo{Data_segs_in: 1000, Rcv_mss: 1448, Options: tcpiTimestamps}, 1514 * 1000},
		{"without timestamps", unix.TCPInfo{Data_segs_in: 1000, Rcv_mss: 1460}, 1514 * 1000},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := wireBytes(&test.info); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
