// SPDX-License-Identifier: Apache-2.0

package classify

import (
	"strconv"
	"strings"

	"weir/internal/core/invalid"
)

// MaxDSCP is the largest code point: the field has six bits.
const MaxDSCP = 63

// codePoints are the names of DSCP values: class selectors and default (RFC
// 2474), assured forwarding (RFC 2597), expedited forwarding (RFC 3246), voice
// admit (RFC 5865), lower effort (RFC 8622).
var codePoints = []struct {
	name  string
	value uint8
}{
	{"cs0", 0}, {"le", 1},
	{"cs1", 8}, {"af11", 10}, {"af12", 12}, {"af13", 14},
	{"cs2", 16}, {"af21", 18}, {"af22", 20}, {"af23", 22},
	{"cs3", 24}, {"af31", 26}, {"af32", 28}, {"af33", 30},
	{"cs4", 32}, {"af41", 34}, {"af42", 36}, {"af43", 38},
	{"cs5", 40}, {"va", 44}, {"ef", 46},
	{"cs6", 48}, {"cs7", 56},
}

// ParseDSCP reads a code point: its name, or a number from 0 to 63, decimal or
// as 0x2e. The error is an *invalid.Error without a field; see invalid.InField.
func ParseDSCP(s string) (uint8, error) {
	text := strings.TrimSpace(s)
	lower := strings.ToLower(text)
	for _, p := range codePoints {
		if p.name == lower {
			return p.value, nil
		}
	}
	if lower == "be" || lower == "default" || lower == "df" {
		return 0, nil
	}
	const remedy = "write a number from 0 to 63, or a name: cs0 to cs7, af11 to af43, ef, va, le"
	n, err := strconv.ParseUint(lower, 0, 64)
	if err != nil {
		return 0, &invalid.Error{Value: text, Msg: "no such code point", Remedy: remedy}
	}
	if n > MaxDSCP {
		msg := "more than the six bits of the field hold"
		if n < 256 && n%4 == 0 {
			msg += "; the DSCP of a traffic class byte of " + text + " is " + DSCPName(uint8(n/4))
		}
		return 0, &invalid.Error{Value: text, Msg: msg, Remedy: remedy}
	}
	return uint8(n), nil
}

// DSCPName returns the code point's name where it has one, else its number. ParseDSCP
// reads it.
func DSCPName(value uint8) string {
	for _, p := range codePoints {
		if p.value == value {
			return p.name
		}
	}
	return strconv.Itoa(int(value))
}
