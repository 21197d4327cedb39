// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy/classify"
)

// The words that may stand for prefixes.
const (
	Connected = "connected" // the networks of the device, and what never leaves them
	Private   = "private"   // addresses that are not of the internet
)

// private are the prefixes of Private: RFC 1918, 6598 (a provider's own) and 4193.
var private = mustPrefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")

// local are the prefixes that are in Connected on every device: link-local addresses, the link's
// own multicast, broadcast.
var local = mustPrefixes("169.254.0.0/16", "224.0.0.0/24", "255.255.255.255/32", "fe80::/10", "ff02::/16")

func mustPrefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// MostPrefixes bounds the prefixes of a zone.
const MostPrefixes = 100_000

// Add puts what a text stands for into the prefixes: a prefix, an address, or a word. The error
// is an *invalid.Error.
func (p *Prefixes) Add(text string) error {
	switch text {
	case Connected:
		p.Connected = true
		p.List = sorted(append(slices.Clone(p.List), local...))
		return nil
	case Private:
		p.List = sorted(append(slices.Clone(p.List), private...))
		return nil
	}
	q, err := parse(text)
	if err == nil {
		p.List = sorted(append(slices.Clone(p.List), q))
	}
	return err
}

func parse(text string) (netip.Prefix, error) {
	q, err := classify.ParsePrefix(text)
	var mistake *invalid.Error
	if errors.As(err, &mistake) && !strings.ContainsAny(text, ".:") {
		named := *mistake
		named.Remedy = "write a prefix such as 192.0.2.0/24 or 2001:db8::/32, or connected or private"
		return q, &named
	}
	if err == nil && q.Bits() == 0 {
		return q, &invalid.Error{Value: text, Msg: "is every address", Remedy: "leave prefixes out: a zone without them is all that no other zone has"}
	}
	return q, err
}

// AddFile puts the prefixes of a file's text in, one a line; # begins a comment. The error is an
// *invalid.Error that names the first wrong line.
func (p *Prefixes) AddFile(text string) error {
	most := 2 * MostPrefixes // in memory, some of them twice
	list := slices.Grow(slices.Clone(p.List), min(strings.Count(text, "\n")+1, most))
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		q, err := parse(line)
		var mistake *invalid.Error
		if errors.As(err, &mistake) {
			named := *mistake
			named.Msg = fmt.Sprintf("line %d: %s", number, mistake.Msg)
			return &named
		}
		if list = append(list, q); len(list) >= most {
			if list = sorted(list); len(list) > MostPrefixes {
				break
			}
		}
	}
	if p.List = sorted(list); len(p.List) > MostPrefixes {
		return &invalid.Error{Value: fmt.Sprint(len(p.List)), Msg: "prefixes are more than a zone can have",
			Remedy: fmt.Sprintf("bring them down to %d, by shorter ones that hold several", MostPrefixes)}
	}
	return nil
}
