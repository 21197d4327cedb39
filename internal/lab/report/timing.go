// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"weir/internal/lab/meter"
)

// TimingResult holds the distances of packets from their schedule.
type TimingResult struct {
	Name       string      `json:"name"`
	IntervalNs float64     `json:"interval_ns"` // from one packet to the next
	Rows       []TimingRow `json:"rows"`
}

// TimingRow is one scheduler, with idle CPUs or with as many busy programs. Times are
// in microseconds. Late is the time by which a packet arrived late, its own time being
// counted in whole intervals from the earliest for which the scheduler set its timer, or, if
// that is not known, at which one arrived; Gap is the difference between the interval and the
// time between two packets.
type TimingRow struct {
	Scheduler string  `json:"scheduler"`
	Busy      bool    `json:"busy"`
	Packets   int     `json:"packets"`
	RateError float64 `json:"rate_error"` // part of the rate
	LateFrom  string  `json:"late_from"`  // TimerKnown or ByArrival
	LateP50   float64 `json:"late_p50_us"`
	LateP99   float64 `json:"late_p99_us"`
	LateMax   float64 `json:"late_max_us"`
	GapP50    float64 `json:"gap_p50_us"`
	GapP99    float64 `json:"gap_p99_us"`
	// Problem is why the row has no figures; "" = it was measured.
	Problem string `json:"problem,omitempty"`
}

// What the times of packets are counted from.
const (
	TimerKnown = "timer"
	ByArrival  = "arrival"
)

// Problems returns a line for each row that was not measured.
func (r *TimingResult) Problems() (list []string) {
	for _, row := range r.Rows {
		if row.Problem != "" {
			list = append(list, fmt.Sprintf("%s, CPUs %s: not measured: %s", row.Scheduler, row.cpus(), row.Problem))
		}
	}
	return list
}

// warmTiming are packets at the beginning that are left out: a token bucket begins
// full, fq lets a new flow send ten frames at once.
const warmTiming = 50

// TimingOf judges when packets arrived.
func TimingOf(stamps []meter.Stamp, interval float64) TimingRow {
	if len(stamps) < warmTiming+2 {
		return TimingRow{Problem: fmt.Sprintf("%d packets arrived, and the first %d are left out", len(stamps), warmTiming)}
	}
	stamps = stamps[warmTiming:]
	row := TimingRow{Packets: len(stamps), LateFrom: TimerKnown}
	first, earliest := stamps[0].At, math.Inf(1)
	var late, gap []float64
	for i, s := range stamps {
		if s.Due == 0 {
			row.LateFrom = ByArrival
		}
		late = append(late, float64(s.At-first)-float64(i)*interval)
		earliest = min(earliest, float64(int64(s.Due-first))-float64(i)*interval)
		if i > 0 {
			gap = append(gap, math.Abs(float64(s.At-stamps[i-1].At)-interval)/1e3)
		}
	}
	if row.LateFrom == ByArrival {
		earliest = slices.Min(late)
	}
	for i := range late {
		late[i] = (late[i] - earliest) / 1e3
	}
	span := float64(stamps[len(stamps)-1].At - first)
	row.RateError = float64(len(stamps)-1)*interval/span - 1
	slices.Sort(late)
	slices.Sort(late)
	slices.Sort(gap)
	row.LateP50, row.LateP99, row.LateMax = *quantile(late, 0.5), *quantile(late, 0.99), late[len(late)-1]
	row.GapP50, row.GapP99 = *quantile(gap, 0.5), *quantile(gap, 0.99)
	return row
}

// TimingJSON writes a line per row; one that was not measured has its problem instead of figures.
func TimingJSON(out io.Writer, r *TimingResult) error {
	enc := json.NewEncoder(out)
	for _, row := range r.Rows {
		if row.Problem != "" {
			if err := enc.Encode(struct {
				Scenario  string `json:"scenario"`
				Scheduler string `json:"scheduler"`
				Busy      bool   `json:"busy"`
				Problem   string `json:"problem"`
			}{r.Name, row.Scheduler, row.Busy, row.Problem}); err != nil {
				return err
			}
			continue
		}
		line := struct {
			Scenario   string  `json:"scenario"`
			IntervalNs float64 `json:"interval_ns"`
			TimingRow
		}{r.Name, r.IntervalNs, row}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// TimingTable writes the rows for people.
func TimingTable(out io.Writer, r *TimingResult) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: a packet each %v; times in us\n\n", r.Name, time.Duration(r.IntervalNs))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "scheduler\tCPUs\trate\tlate p50\tp99\tmax\tgap off by p50\tp99\t")
	for _, row := range r.Rows {
		if row.Problem != "" {
			fmt.Fprintf(w, "%s\t%s\t-\t-\t-\t-\t-\t-\t  not measured: %s\n", row.Scheduler, row.cpus(), row.Problem)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%+.3f %%\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", row.Scheduler, row.cpus(), 100*row.RateError,
			row.LateP50, row.LateP99, row.LateMax, row.GapP50, row.GapP99)
	}
	_ = w.Flush() // into memory
	if slices.ContainsFunc(r.Rows, func(row TimingRow) bool { return row.LateFrom == ByArrival }) {
		b.WriteString("\nlate is counted from the earliest packet: this host does not let the lab see when the scheduler's timer was due.\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// cpus says what the CPUs did meanwhile.
func (r TimingRow) cpus() string {
	if r.Busy {
		return "busy"
	}
	return "idle"
}
