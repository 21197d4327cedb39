// SPDX-License-Identifier: Apache-2.0

package classify

import "net/netip"

// Clash is a match that an earlier queue's match takes packets from.
type Clash struct {
	Queue, By      int // indices of the queues, the later one first
	Match, ByMatch Match
	// Unreachable says that no packet at all is left for the match; else it is
	// some of its ports, or one of the things it lists.
	Unreachable bool
}

// Clashes lists the matches that an earlier queue takes packets from: all of
// them, or some where both speak of the same things. At most one for each match,
// in their order. An earlier match that is narrower is no clash: it is how an exception is
// written.
func Clashes(queues [][]Match) []Clash {
	rules := compile(queues).List
	var clashes []Clash
	for begin := 0; begin < len(rules); {
		end := begin
		for end < len(rules) && rules[end].Queue == rules[begin].Queue && rules[end].Match == rules[begin].Match {
			end++
		}
		if by, all, found := taker(rules[:begin], rules[begin:end]); found {
			later := rules[begin]
			clashes = append(clashes, Clash{
				Queue: later.Queue, By: by.Queue, Unreachable: all,
				Match: queues[later.Queue][later.Match], ByMatch: queues[by.Queue][by.Match],
			})
		}
		begin = end
	}
	return clashes
}

// taker finds a rule of another queue that takes packets from a match's rules, and
// says whether nothing is left of them.
func taker(before, match []Rule) (by Rule, all, found bool) {
	covered := 0
	for _, rule := range match {
		for _, earlier := range before {
			if earlier.Queue == rule.Queue {
				continue
			}
			if earlier.covers(rule.Condition) {
				covered++
				by, found = earlier, true
				break
			}
			if !found && earlier.cuts(rule.Condition) {
				by, found = earlier, true
			}
		}
	}
	return by, covered == len(match), found
}

// covers reports whether every packet that fits d fits c.
func (c Condition) covers(d Condition) bool {
	return coversOpt(c.Proto, d.Proto) && coversOpt(c.DSCP, d.DSCP) && coversOpt(c.VLAN, d.VLAN) &&
		coversOpt(c.Priority, d.Priority) &&
		c.Mark.Mask&^d.Mark.Mask == 0 && d.Mark.Value&c.Mark.Mask == c.Mark.Value &&
		coversPrefix(c.Src, d.Src) && coversPrefix(c.Dst, d.Dst) &&
		coversPorts(c.Sport, d.Sport) && coversPorts(c.Dport, d.Dport) &&
		(coversPorts(c.Port, d.Port) || coversPorts(c.Port, d.Sport) || coversPorts(c.Port, d.Dport))
}

// cuts reports whether c and d ask about the same things and some packets fit
// both, while neither is the other's exception.
func (c Condition) cuts(d Condition) bool {
	alike := c.Proto == d.Proto && c.DSCP == d.DSCP && c.VLAN == d.VLAN && c.Priority == d.Priority &&
		c.Port.Given == d.Port.Given && c.Sport.Given == d.Sport.Given && c.Dport.Given == d.Dport.Given &&
		c.Src.IsValid() == d.Src.IsValid() && c.Dst.IsValid() == d.Dst.IsValid() &&
		(c.Mark.Mask == 0) == (d.Mark.Mask == 0)
	both := c.Mark.Mask & d.Mark.Mask
	return alike && meet(c.Port, d.Port) && meet(c.Sport, d.Sport) && meet(c.Dport, d.Dport) &&
		(!c.Src.IsValid() || c.Src.Overlaps(d.Src)) && (!c.Dst.IsValid() || c.Dst.Overlaps(d.Dst)) &&
		c.Mark.Value&both == d.Mark.Value&both &&
		!d.covers(c)
}

func coversOpt[T comparable](c, d Opt[T]) bool { return !c.Given || c == d }

func coversPorts(c, d Opt[PortRange]) bool {
	return !c.Given || d.Given && c.Value.First <= d.Value.First && d.Value.Last <= c.Value.Last
}

func coversPrefix(c, d netip.Prefix) bool {
	return !c.IsValid() || d.IsValid() && c.Bits() <= d.Bits() && c.Contains(d.Addr())
}

func meet(c, d Opt[PortRange]) bool {
	return !c.Given || c.Value.First <= d.Value.Last && d.Value.First <= c.Value.Last
}
