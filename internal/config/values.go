// SPDX-License-Identifier: Apache-2.0

package config

import (
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"weir/internal/core/plan"
	"weir/internal/core/policy/framing"
)

// The readers of single values. Each leaves its target alone if the file gives no value
// there, so that defaults stay, and records mistakes.

func readText(value node, into *string) {
	if text, ok := value.text(); ok {
		*into = text
	}
}

func readPath(value node, into *string) {
	text, ok := value.text()
	if !ok {
		return
	}
	text = strings.TrimPrefix(text, "unix://")
	if !path.IsAbs(text) {
		value.wrong("%q is no absolute path; begin it with a slash", text)
		return
	}
	*into = text
}

func readBool(value node, into *bool) {
	text, ok := value.text()
	if !ok {
		return
	}
	switch strings.ToLower(text) {
	case "true", "yes", "on":
		*into = true
	case "false", "no", "off":
		*into = false
	default:
		value.wrong("%q is neither true nor false; write one of the two", text)
	}
}

func readChoice(value node, into *string, choices ...string) {
	text, ok := value.text()
	if !ok {
		return
	}
	if !slices.Contains(choices, text) {
		value.wrong("%q is not known; write one of %s", text, strings.Join(choices, ", "))
		return
	}
	*into = text
}

// readMask reads the bits of the mark, or auto.
func readMask(value node, into *uint32, auto *bool) {
	text, ok := value.text()
	if !ok {
		return
	}
	if *auto = text == "auto"; *auto {
		return
	}
	mask, err := strconv.ParseUint(text, 0, 32)
	if err != nil || mask == 0 {
		value.wrong("%q is no mask of 32 bits; write auto, or one such as 0xffff0000", text)
		return
	}
	if err := plan.Mask(mask).Check(); err != nil {
		value.refuse(err)
		return
	}
	*into = uint32(mask)
}

// readShare reads "75%" as 0.75.
// readShare reads a percentage above 0; readPart takes 0% too.
func readShare(value node, into *float64) {
	readPercentage(value, "above 0 and up to 100", math.SmallestNonzeroFloat64, into)
}

func readPart(value node, into *float64) { readPercentage(value, "from 0 to 100", 0, into) }

func readPercentage(value node, bounds string, least float64, into *float64) {
	text, ok := value.text()
	if !ok {
		return
	}
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !percent || !(share >= least && share <= 100) {
		value.wrong("%q is no share; give a percentage %s, e.g. 75%%", text, bounds)
		return
	}
	*into = share / 100
}

func readFraming(value node, into *framing.Framing) {
	text, ok := value.text()
	if !ok {
		return
	}
	f, err := framing.Parse(text)
	if err != nil {
		value.wrong("%v", err)
		return
	}
	*into = f
}
