// SPDX-License-Identifier: Apache-2.0

package discipline

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/core/invalid"
)

// Isolation says what sfq takes for one flow, and so does the queue of pq, cbwfq or llq that takes
// the rest, in which flows take turns, too. The values are CAKE's flow modes.
type Isolation string

// The isolations. With BySource, ByDestination and ByHosts a host is one flow, however many
// connections it has.
const (
	ByFlow        Isolation = ""        // addresses, protocol and ports
	BySource      Isolation = "srchost" // the source's address
	ByDestination Isolation = "dsthost" // the destination's address
	ByHosts       Isolation = "hosts"   // both addresses
	NoIsolation   Isolation = "none"    // all packets of the queue that takes the rest keep their order
)

// flowsWord stands for ByFlow, the default.
const flowsWord = "flows"

// Isolations returns the names of all isolations, the default first.
func Isolations() []string {
	return []string{flowsWord, string(BySource), string(ByDestination), string(ByHosts), string(NoIsolation)}
}

// ParseIsolation reads an isolation's name. The error is an *invalid.Error without a field; see
// invalid.InField.
func ParseIsolation(s string) (Isolation, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	if !slices.Contains(Isolations(), text) {
		return "", &invalid.Error{Value: strings.TrimSpace(s), Msg: "no such isolation", Remedy: "write " + invalid.Listed(Isolations(), "or")}
	}
	if text == flowsWord {
		return ByFlow, nil
	}
	return Isolation(text), nil
}

// Compact returns i as a person would write it: "flows" for the default.
func (i Isolation) Compact() string {
	if i == ByFlow {
		return flowsWord
	}
	return string(i)
}

// Fits reports whether an isolation goes with a discipline.
func (i Isolation) Fits(d Name) bool {
	switch d.OrDefault() {
	case SFQ:
		return i != NoIsolation
	case FIFO:
		return i == ByFlow // the default, which says nothing
	}
	return true
}

// Check reports as an *invalid.Error, without a field, an isolation that there is not, and one
// that does not go with the discipline.
func (i Isolation) Check(d Name) error {
	if _, err := ParseIsolation(i.Compact()); err != nil {
		return err
	}
	if i.Fits(d) {
		return nil
	}
	if i == NoIsolation {
		return &invalid.Error{Value: string(i), Msg: fmt.Sprintf("discipline %s tells flows apart, or has one queue", d.OrDefault()),
			Remedy: "write discipline fifo, or leave isolation out"}
	}
	return &invalid.Error{Value: string(i), Msg: fmt.Sprintf("discipline %s does not tell flows apart", d),
		Remedy: "write discipline sfq, or isolation flows"}
}
