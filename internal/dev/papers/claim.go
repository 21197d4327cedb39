// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
)

// claim is a conclusion that a page draws from its runs: a sentence, and the rule that says
// whether the data bears it. It is printed either way, with what was seen.
type claim struct {
	says string
	// rule returns what was seen, and whether the sentence holds. It is called only with all
	// runs that needs names.
	rule  func(w *writer) (holds bool, seen string)
	needs []string
}

// claims prints each with its verdict.
func (w *writer) claims(list []claim) {
	for _, c := range list {
		w.Line("* %s %s", c.says, w.verdict(c))
	}
	if len(list) > 0 {
		w.Line("")
	}
}

// verdict is "Holds", "Does not hold" or "Not measured", with what was seen.
func (w *writer) verdict(c claim) string {
	for _, name := range c.needs {
		if w.runs[name] == nil {
			return "**Not measured**: " + name + " is missing."
		}
	}
	holds, seen := c.rule(w)
	word := "Does not hold"
	if holds {
		word = "Holds"
	}
	return "**" + word + "**: " + seen + "."
}

// within is a claim that a run is near the contract in all cases: rates within a part of
// the link.
func within(says, run string, most float64) claim {
	return claim{says: says, needs: []string{run}, rule: func(w *writer) (bool, string) {
		worst, place := w.runs[run].worst()
		return worst <= most, fmt.Sprintf("off by %s at most (%s); the bar is %s", percent(worst), place, percent(most))
	}}
}

// tailed is a claim about one number of a run, which is to be at most so large.
func tailed(says, run string, most float64, unit string, number func(x *run) *float64) claim {
	return claim{says: says, needs: []string{run}, rule: func(w *writer) (bool, string) {
		v := number(w.runs[run])
		if v == nil {
			return false, "it was not measured"
		}
		return *v <= most, fmt.Sprintf("%.3f %s; the bar is %.3g %s", *v, unit, most, unit)
	}}
}

// ordered is a claim that in each phase the runs' numbers rise in their order.
func ordered(says string, number func(x *run, phase int) *float64, unit string, scale float64, names ...string) claim {
	return claim{says: says, needs: names, rule: func(w *writer) (bool, string) {
		phases, held := len(w.runs[names[0]].phases), 0
		example := ""
		for p := range phases {
			rises, last := true, math.Inf(-1)
			var list []string
			for _, n := range names {
				v := number(w.runs[n], p)
				if v == nil {
					rises = false
					continue
				}
				rises, last = rises && *v > last, *v
				list = append(list, fmt.Sprintf("%s %.2f", w.runs[n].scheduler, *v*scale))
			}
			if rises {
				held++
			} else if example == "" {
				example = fmt.Sprintf(", not in case %d (%s %s)", p+1, strings.Join(list, ", "), unit)
			}
		}
		if held < phases {
			return false, fmt.Sprintf("it is so in %d of %d cases%s", held, phases, example)
		}
		return true, fmt.Sprintf("in %d of %d cases", held, phases)
	}}
}
