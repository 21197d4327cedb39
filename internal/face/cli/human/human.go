// SPDX-License-Identifier: Apache-2.0

// Package human writes quantities for people: rates, sizes, shares and durations with few digits
// and their units. Example: Measured(16_666_667) is "16.7 Mbit/s", Size(18168) is "18.2 kB",
// Age(192*time.Minute) is "3 h 12 min". None of it is to be read again; -o json has the
// numbers.
package human

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/core/policy"
)

// Direction names a link's direction in both words that people use for it.
func Direction(name string) string {
	if name == "egress" {
		return "egress (upload)"
	}
	if name == "ingress" {
		return "ingress (download)"
	}
	return name
}

// Limit returns a min or a max in bits per second for a table, "-" for none.
func Limit(bps uint64) string {
	if bps == 0 {
		return "-"
	}
	return policy.Rate(bps).String()
}

// Measured returns a rate that was measured.
func Measured(bps float64) string { return policy.Approx(bps) }

// Written returns a min or max as a person would say it: "20 Mbit/s", "25 %", "none".
func Written(text string) string {
	amount, err := policy.ParseAmount(text)
	if err != nil {
		return text
	}
	return amount.String()
}

// Percent returns a share of 1.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", share*100) }

// Size returns a number of bytes with three digits, in powers of 1000 as on the wire.
func Size(bytes uint64) string {
	v, unit := float64(bytes), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB", "PB"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	digits := 2 // three digits in all
	switch {
	case v >= 99.95:
		digits = 0
	case v >= 9.995:
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, unit)
}

// Drops returns how many packets were dropped, the most frequent reason first.
func Drops(byReason map[string]uint64, perSecond float64) string {
	var total uint64
	reasons := slices.SortedFunc(maps.Keys(byReason), func(a, b string) int {
		return cmp.Or(cmp.Compare(byReason[b], byReason[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, reason := range reasons {
		if n := byReason[reason]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%s %d", reason, n))
		}
	}
	if total == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d packets (%s)", total, strings.Join(parts, ", "))
	if perSecond > 0 {
		text += fmt.Sprintf(", %.3g a second now", perSecond)
	}
	return text
}

// Age returns a duration in its two largest units.
func Age(d time.Duration) string {
	d = max(d, 0).Round(time.Second)
	days, hours := d/(24*time.Hour), d/time.Hour%24
	minutes, seconds := d/time.Minute%60, d/time.Second%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d d %d h", days, hours)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%d min %d s", minutes, seconds)
	}
	return fmt.Sprintf("%d s", seconds)
}

// LimitOrNone returns a min or a max in bits per second, 0 being none.
func LimitOrNone(bps uint64) string {
	if bps == 0 {
		return "none"
	}
	return Limit(bps)
}

// WithNote returns a state with the reason for it.
func WithNote(state, note string) string {
	if note == "" {
		return state
	}
	return state + " (" + note + ")"
}

// Warnings returns a line for each setting of a policy that the user may not have
// meant.
func Warnings(indent string, warnings []string) string {
	var b strings.Builder
	for _, w := range warnings {
		fmt.Fprintf(&b, "%swarning: %s\n", indent, w)
	}
	return b.String()
}
