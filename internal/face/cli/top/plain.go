// SPDX-License-Identifier: Apache-2.0

package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/face/cli/table"
)

// errEnough ends a stream of which enough samples were seen.
var errEnough = errors.New("enough samples")

// Lines writes each sample as text, count of them or without end if count is 0. It writes
// the text that encode makes of a sample as it is. When the agent goes away after the
// first sample it says so on stderr and waits for it to come back.
func Lines(ctx context.Context, stream Stream, count int, encode func(api.Sample) ([]byte, error), stdout, stderr io.Writer) error {
	n := 0
	err := follow(ctx, stream, func(s api.Sample) error {
		text, err := encode(s)
		if err != nil {
			return err
		}
		if _, err := stdout.Write(text); err != nil {
			return err
		}
		if n++; n == count {
			return errEnough
		}
		return nil
	}, func(err error) { fmt.Fprintf(stderr, "weir: %v; waiting for it to come back\n", err) })
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil
	}
	return err
}

// plainColumns of a line; rates are in the unit that the last column names.
var plainColumns = []struct {
	title string
	width int
	right bool
}{
	{"TIME", 8, false}, {"LINK", 12, false}, {"WORKLOAD", 20, false},
	{"RATE", 7, true}, {"SHARE", 5, true}, {"IDEAL", 7, true}, {"P99", 8, true}, {"KEPT", 7, true}, {"MIN", 7, true}, {"MAX", 7, true},
	{"WEIGHT", 6, true}, {"BACKLOG", 9, true}, {"DROPS/S", 7, true},
	{reservation.title, reservation.width, true}, {"UNIT", 6, false}, {"STATE", 9, false},
}

// PlainHeader returns the line above the lines of Plain.
func PlainHeader() string {
	cells := make([]string, len(plainColumns))
	for i, c := range plainColumns {
		cells[i] = c.title
	}
	return plainLine(cells)
}

// Plain returns one sample as lines, one per workload and link, in columns of fixed width
// so that consecutive samples line up.
func Plain(s api.Sample, location *time.Location) string {
	st := &state{sample: s}
	var b strings.Builder
	for _, l := range s.Links {
		u := unitFor(l.CapacityBps)
		link := api.LinkName(l.Device, l.Direction)
		rows := st.rows(link, orders[0])
		for _, r := range rows {
			cells := []string{s.At.In(location).Format("15:04:05"), link, r.name()}
			for _, c := range columns {
				cells = append(cells, c.cell(r, u))
			}
			b.WriteString(plainLine(append(cells, reservation.cell(r, u), u.name, r.workload.State)))
		}
		if len(rows) == 0 {
			fmt.Fprintf(&b, "%s  %s has no workloads\n", s.At.In(location).Format("15:04:05"), table.Clean(link))
		}
	}
	return b.String()
}

func plainLine(cells []string) string {
	padded := make([]string, len(cells))
	for i, c := range plainColumns {
		padded[i] = table.Pad(table.Clean(cells[i]), c.width, c.right)
	}
	return strings.TrimRight(strings.Join(padded, "  "), " ") + "\n"
}
