// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"weir/internal/core/invalid"
)

// units maps the words after a number, in lower case, to their factors.
var units = map[string]uint64{
	"": 1, "bit": 1,
	"k": 1e3, "kbit": 1e3, "ki": 1 << 10, "kibit": 1 << 10,
	"mbit": 1e6, "mi": 1 << 20, "mibit": 1 << 20, // "m" is not here, see unitOf
	"g": 1e9, "gbit": 1e9, "gi": 1 << 30, "gibit": 1 << 30,
	"t": 1e12, "tbit": 1e12, "ti": 1 << 40, "tibit": 1 << 40,
	"p": 1e15, "pbit": 1e15, "pi": 1 << 50, "pibit": 1 << 50,
}

var (
	// number, exponent, unit. The unit is whatever is left.
	written = regexp.MustCompile(`(?s)^([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+))?\s*(.*)$`)
	// prefix and the word for bytes, or what looks like it.
	bytesUnit = regexp.MustCompile(`^((?:[kmgtp]i?)?)(?:b|bytes?)(?:p|/)?(?:s|sec|second)?$`)
)

// Bounds of a number's text. No rate needs more, and big.Rat would take long for more.
const (
	maxDigits   = 20
	maxDecimals = 12
	maxExponent = 18
)

const (
	example  = "write a number with a unit, such as 20mbit, 1.5gbit or 20M"
	mindUnit = "mind the unit: a number alone is in bits per second, 20 megabits are 20mbit"
)

// ParseRate reads a rate as the package comment describes it. The error is an
// *invalid.Error without a field; see invalid.InField.
func ParseRate(s string) (Rate, error) {
	return parseRate(s, "write a rate from "+MinRate.Compact()+" on")
}

// parseRate does the same as ParseRate, with the remedy for a rate of zero.
func parseRate(s, insteadOfZero string) (Rate, error) {
	text := strings.TrimSpace(s)
	fail := func(msg, remedy string) (Rate, error) {
		return 0, &invalid.Error{Value: text, Msg: msg, Remedy: remedy}
	}
	if strings.HasSuffix(text, "%") {
		return fail("a share of the link has no meaning here", "write a rate such as 20mbit")
	}
	number, unit, err := split(text)
	if err != nil {
		return 0, err
	}
	factor, err := unitOf(text, unit, number)
	if err != nil {
		return 0, err
	}
	value := number.Mul(number, new(big.Rat).SetInt(new(big.Int).SetUint64(factor)))
	switch {
	case value.Sign() < 0:
		return fail("a rate cannot be negative", example)
	case value.Sign() == 0:
		return fail("a rate of zero would let nothing pass", insteadOfZero)
	}
	whole := nearest(value)
	binary := factor != 1 && factor%1000 != 0 // 1.1Mi is seldom whole, and that is no mistake of the user
	if !value.IsInt() && !binary && whole.IsUint64() && Rate(whole.Uint64()) >= MinRate {
		return fail("finer than one bit per second", "write "+Rate(whole.Uint64()).Compact())
	}
	rate := Unlimited // where it does not fit; refused below
	if whole.IsUint64() {
		rate = Rate(whole.Uint64())
	}
	if err := checkRate(text, rate); err != nil {
		return 0, err
	}
	return rate, nil
}

// ParseAmount reads a min or a max: a rate, a percentage of the link, or
// nothing. The error is an *invalid.Error without a field; see invalid.InField.
func ParseAmount(s string) (Amount, error) {
	text := strings.TrimSpace(s)
	if text == "" || strings.EqualFold(text, "none") {
		return Amount{}, nil
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		return parsePercent(text, strings.TrimSpace(number))
	}
	rate, err := parseRate(text, "write none if there should be no limit")
	if err != nil {
		return Amount{}, err
	}
	return Amount{Rate: rate}, nil
}

func parsePercent(text, number string) (Amount, error) {
	value, rest, err := split(number)
	if err != nil || rest != "" {
		return Amount{}, &invalid.Error{Value: text, Msg: "not a percentage", Remedy: "write it as 25% or 12.5%"}
	}
	if value.Sign() <= 0 || value.Cmp(big.NewRat(100, 1)) > 0 {
		return Amount{}, percentRangeError(text)
	}
	steps := value.Mul(value, big.NewRat(percentSteps, 1))
	if !steps.IsInt() {
		return Amount{}, percentFineError(text)
	}
	return Amount{Percent: float64(steps.Num().Int64()) / percentSteps}, nil
}

// ParseWeight reads a weight. The error is an *invalid.Error for the field "weight".
func ParseWeight(s string) (uint32, error) {
	text := strings.TrimSpace(s)
	weight, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, weightError(text, "not a whole number")
	}
	if err != nil || weight < 1 || weight > MaxWeight {
		return 0, weightError(text, "out of range")
	}
	return uint32(weight), nil
}

// split takes a number and its unit apart.
func split(text string) (number *big.Rat, unit string, err error) {
	refuse := func(msg, remedy string) (*big.Rat, string, error) {
		return nil, "", &invalid.Error{Value: text, Msg: msg, Remedy: remedy}
	}
	if text == "" {
		return refuse("empty", example)
	}
	m := written.FindStringSubmatch(text)
	if m == nil {
		return refuse("does not begin with a number", example)
	}
	if strings.HasPrefix(m[3], ",") {
		return refuse("a comma in a number", "write a point for decimals and nothing between thousands")
	}
	mantissa, exponent := m[1], m[2]
	if len(mantissa) > maxDigits+1 || len(mantissa)-strings.IndexByte(mantissa+".", '.')-1 > maxDecimals {
		return refuse("more digits than a rate can have", "round it")
	}
	if exponent == "" {
		exponent = "0"
	}
	if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
		return refuse("an exponent that no rate can have", example)
	}
	number, _ = new(big.Rat).SetString(mantissa + "e" + exponent)
	return number, m[3], nil
}

// unitOf returns the factor of the unit, or an error that says why it is refused.
func unitOf(text, unit string, number *big.Rat) (uint64, error) {
	lower := strings.ToLower(unit)
	if strings.HasSuffix(lower, "bit/s") {
		lower = strings.TrimSuffix(lower, "/s") // as we print it
	}
	if factor, ok := units[lower]; ok {
		return factor, nil
	}
	plain := decimalText(number)
	switch m := bytesUnit.FindStringSubmatch(lower); {
	case unit == "M":
		return 1e6, nil
	case unit == "m":
		return 0, &invalid.Error{
			Value: text, Msg: "m is milli to Kubernetes, mega to others",
			Remedy: fmt.Sprintf("write %sM or %smbit", plain, plain),
		}
	case m != nil:
		return 0, bytesError(text, unit, plain, m[1], decimalText(new(big.Rat).Mul(number, big.NewRat(8, 1))))
	}
	return 0, &invalid.Error{Value: text, Msg: fmt.Sprintf("unknown unit %s", invalid.Quote(unit)), Remedy: example}
}

// bytesError refuses a unit that half the world reads as eight times the other
// half's.
func bytesError(text, unit, number, prefix, eightfold string) error {
	prefixes := map[string]string{
		"k": "kilo", "m": "mega", "g": "giga", "t": "tera", "p": "peta",
		"ki": "kibi", "mi": "mebi", "gi": "gibi", "ti": "tebi", "pi": "pebi",
	}
	name := prefixes[prefix]
	msg := fmt.Sprintf("%s is %sbytes to some and %sbits to others", unit, name, name)
	switch lower := strings.ToLower(unit); {
	case strings.Contains(lower, "byte"):
		msg = "rates are in bits, not in bytes"
	case strings.HasSuffix(lower, "bps"):
		msg = fmt.Sprintf("tc reads %s as %sbytes a second, others as %sbits", unit, name, name)
	}
	return &invalid.Error{
		Value: text, Msg: msg,
		Remedy: fmt.Sprintf("write %s%sbit if you mean %s %sbytes a second, %s%sbit if you mean %s %sbits a second",
			eightfold, prefix, number, name, number, prefix, number, name),
	}
}

// checkRate refuses a rate that was written as text and is out of the bounds.
func checkRate(text string, r Rate) error {
	switch {
	case r < MinRate:
		return &invalid.Error{Value: text, Msg: fmt.Sprintf("less than the smallest rate, %s", MinRate), Remedy: mindUnit}
	case r > MaxRate:
		return &invalid.Error{Value: text, Msg: fmt.Sprintf("more than the largest rate, %s", MaxRate), Remedy: mindUnit}
	}
	return nil
}

func percentRangeError(text string) error {
	return &invalid.Error{Value: text, Msg: "a share of the link is above 0% and at most 100%", Remedy: "write it as 25%, or none"}
}

func percentFineError(text string) error {
	return &invalid.Error{Value: text, Msg: "a percentage has at most four decimals", Remedy: "round it"}
}

func weightError(text, msg string) error {
	return &invalid.Error{
		Field: "weight", Value: text, Msg: msg,
		Remedy: fmt.Sprintf("write a whole number from 1 to %d; only the proportions between weights count", MaxWeight),
	}
}

// nearest rounds half up.
func nearest(r *big.Rat) *big.Int {
	twice := new(big.Int).Lsh(r.Num(), 1)
	twice.Add(twice, r.Denom())
	return twice.Div(twice, new(big.Int).Lsh(r.Denom(), 1))
}

// decimalText writes a number that came from decimal digits, without the zeros
// at its end.
func decimalText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(maxDecimals+maxExponent), "0")
}
