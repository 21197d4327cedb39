// SPDX-License-Identifier: Apache-2.0

package discipline

import (
	"fmt"
	"slices"
	"strings"

	"weir/internal/invalid"
)

// Isolation says what sfq takes for one flow: the values are CAKE's flow modes.
type Isolation string

// The isolations. With all but the first a host is one flow, however many connections it has.
const (
	ByFlow        Isolation = ""        // addresses, protocol and ports
	BySource      Isolation = "srchost" // the source's address
	ByDestination Isolation = "dsthost" // the destination's address
	ByHosts       Isolation = "hosts"   // both addresses
)

// flowsWord stands for ByFlow, the default.
const flowsWord = "flows"

// Isolations returns the names of all isolations, the default first.
func Isolations() []string {
	return []string{flowsWord, string(BySource), string(ByDestination), string(ByHosts)}
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

// Check reports as an *invalid.Error, without a field, an isolation that there is not, and one
// beside a discipline that does not tell flows apart.
func (i Isolation) Check(d Name) error {
	if _, err := ParseIsolation(i.Compact()); err != nil {
		return err
	}
	if i != ByFlow && d.OrDefault() != SFQ {
		return &invalid.Error{Value: string(i), Msg: fmt.Sprintf("discipline %s does not tell flows apart", d),
			Remedy: "write discipline sfq, or isolation flows"}
	}
	return nil
}
