// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"weir/internal/core/invalid"
)

// Rate is in bits per second. Rates are wire rates unless said otherwise.
type Rate uint64

// Unlimited is the demand of a workload that takes whatever it is given.
const Unlimited = ^Rate(0)

// The smallest and the largest rate that a person may ask for, the same as
// Kubernetes has for its bandwidth annotations. Up to MaxRate a float64 counts
// every bit, and the mins of a full link add up without overflow.
const (
	MinRate Rate = 1e3
	MaxRate Rate = 1e15
)

// scales are the units that rates are printed in, largest first.
var scales = []struct {
	size        Rate
	long, short string
}{
	{1e12, "Tbit/s", "tbit"},
	{1e9, "Gbit/s", "gbit"},
	{1e6, "Mbit/s", "mbit"},
	{1e3, "kbit/s", "kbit"},
	{1, "bit/s", "bit"},
}

// String returns the rate for people to read, exactly: "20 Mbit/s", "1.5 Gbit/s".
func (r Rate) String() string {
	if r == Unlimited {
		return "unlimited"
	}
	number, i := r.decimal()
	return number + " " + scales[i].long
}

// Compact returns the rate as a person would have written it: "20mbit". For rates
// from MinRate to MaxRate, ParseRate(r.Compact()) is r.
func (r Rate) Compact() string {
	number, i := r.decimal()
	return number + scales[i].short
}

// decimal writes r in the largest unit that it reaches, without rounding.
func (r Rate) decimal() (number string, scale int) {
	i := 0
	for i < len(scales)-1 && r < scales[i].size {
		i++
	}
	size := scales[i].size
	number = strconv.FormatUint(uint64(r/size), 10)
	if rest := r % size; rest != 0 {
		// size+rest has the zeros that belong after the point, behind a 1.
		fraction := strconv.FormatUint(uint64(size+rest), 10)[1:]
		number += "." + strings.TrimRight(fraction, "0")
	}
	return number, i
}

// Approx prints a measured rate with three digits: "16.7 Mbit/s".
func Approx(bps float64) string {
	if !(bps > 0) {
		return Rate(0).String()
	}
	// The detour by text rounds to three digits of whatever size; a rate below
	// MinRate is printed in whole bits per second.
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(bps, 'e', 2, 64), 64)
	if rounded >= float64(Unlimited) {
		return Unlimited.String()
	}
	return Rate(math.Round(rounded)).String()
}

// Amount is a rate as a person wrote it: absolute, or a share of the link.
// The zero Amount means "none".
type Amount struct {
	Rate    Rate    // bits per second, if Percent is 0
	Percent float64 // of the link's capacity, 0 < Percent <= 100
}

// percentSteps is the number of steps in one percent: 25.0001% is the next
// after 25%.
const percentSteps = 1e4

// None reports whether nothing was asked.
func (a Amount) None() bool { return a == Amount{} }

// Of returns the amount on a link of this capacity, in bits per second. Percentages
// are rounded down, so that 100 % of mins always fit, but never to 0, which
// would mean "none".
func (a Amount) Of(capacity Rate) Rate {
	if !(a.Percent > 0) {
		return a.Rate
	}
	hi, lo := bits.Mul64(uint64(capacity), a.steps())
	part, _ := bits.Div64(hi, lo, 100*percentSteps) // hi < divisor, as steps <= divisor
	return Rate(max(part, 1))
}

// steps returns the percentage as a whole number of ten-thousandths, at most 100 %.
func (a Amount) steps() uint64 {
	return uint64(math.Round(min(a.Percent, 100) * percentSteps))
}

// Check refuses, as an *invalid.Error without a field, an amount that no person may ask for.
func (a Amount) Check() error {
	switch {
	case a.None():
		return nil
	case a.Rate != 0 && a.Percent != 0:
		return &invalid.Error{Value: a.Rate.Compact() + " and " + a.percent(), Msg: "both a rate and a share of the link", Remedy: "write one of them"}
	case a.Rate != 0:
		return checkRate(a.Rate.Compact(), a.Rate)
	case !(a.Percent > 0 && a.Percent <= 100):
		return percentRangeError(a.percent())
	case float64(a.steps())/percentSteps != a.Percent:
		return percentFineError(a.percent())
	}
	return nil
}

// String returns the amount for people to read: "20 Mbit/s", "25 %", "none".
func (a Amount) String() string {
	switch {
	case a.None():
		return "none"
	case a.Percent != 0:
		return strings.TrimSuffix(a.percent(), "%") + " %"
	}
	return a.Rate.String()
}

// Compact returns the amount as a person would have written it: "20mbit", "25%", and
// "" for none. ParseAmount(a.Compact()) is a, if a is valid.
func (a Amount) Compact() string {
	switch {
	case a.None():
		return ""
	case a.Percent != 0:
		return a.percent()
	}
	return a.Rate.Compact()
}

func (a Amount) percent() string {
	return strconv.FormatFloat(a.Percent, 'f', -1, 64) + "%"
}

// on returns the text of String; a percentage has its rate on the link before it.
func (a Amount) on(capacity Rate) string {
	if a.Percent == 0 {
		return a.String()
	}
	return fmt.Sprintf("%s (%s of %s)", a.Of(capacity), a.String(), capacity)
}
