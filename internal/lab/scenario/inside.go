// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"math"
	"net/netip"
	"slices"

	"weir/internal/core/policy"
	"weir/internal/core/policy/classify"
	"weir/internal/core/policy/discipline"
)

// Address of a workload.
func Address(workload int) netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 1, byte(workload + 1)}) }

// Ends are the addresses of a flow: of who begins it and sends, and of who receives.
func (f Flow) Ends() (from, to netip.Addr) {
	from, to = Address(f.Workload), HostAddress(f.Workload, f.Host)
	if f.Ingress {
		return to, from
	}
	return from, to
}

// ServerAddress is the receiver's address for a workload.
func ServerAddress(workload int) netip.Addr { return HostAddress(workload, 1) }

// HostAddress is the address of one of the receiver's hosts for a workload, from 1 on.
func HostAddress(workload, host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(1 + max(host, 1)), byte(workload + 1)})
}

// Numbers of IP protocols, as rules see them.
const (
	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17
)

// transport is the protocol that a kind of traffic is sent by.
func (k Kind) transport() uint8 {
	switch k {
	case TCP, TCPRR, TCPCRR:
		return protoTCP
	case UDP, UDPRR:
		return protoUDP
	}
	return protoICMP
}

// Packet is what rules see of a flow's packets. The sender's port is not known
// beforehand; it is one of those that systems give, from 32768 on.
func (f Flow) Packet() classify.Packet {
	p := classify.Packet{
		Proto: f.Kind.transport(), DSCP: f.DSCP,
	}
	p.Src, p.Dst = f.Ends()
	if p.Proto != protoICMP {
		p.Ports, p.Sport, p.Dport = true, 32768, uint16(f.Listen)
	}
	return p
}

// QueueOf is the index of a flow's queue in the policy of its workload, -1 if it
// has no queues.
func (p Policy) QueueOf(f Flow) int {
	if len(p.Queues) == 0 {
		return -1
	}
	return classify.QueueOf(policy.MatchesOf(p.Queues), f.Packet())
}

// Warnings are about rules that overlap, a line for each.
func (s *Scenario) Warnings() []string {
	var list []string
	for _, policies := range s.Policies() {
		for w, p := range policies {
			warnings, _ := policy.CheckRules(p.Queues) // mistakes were found when it was read
			for _, about := range warnings {
				if line := s.Workloads[w].Name + ": " + about.Error(); !slices.Contains(list, line) {
					list = append(list, line)
				}
			}
		}
	}
	return list
}

// inside divides each workload's ideal among its queues and flows, as its
// discipline does. A flow's part is said where its discipline gives it one: alone
// in its queue, or with sfq, or where all have what they want.
func inside(policies []Policy, flows []Flow, st Stretch) (queues [][]float64, parts []float64) {
	parts = make([]float64, len(flows))
	for i := range parts {
		parts[i] = math.NaN()
	}
	for w, p := range policies {
		shares := p.insideOf(st.Ideal[w], flows, st, func(f Flow) int {
			if f.Workload != w {
				return -1
			}
			return max(0, p.QueueOf(f))
		}, parts)
		if len(p.Queues) == 0 {
			shares = nil
		}
		queues = append(queues, shares)
	}
	return queues, parts
}

// insideOf divides a rate among the flows that queueOf gives a queue, and fills
// their parts in.
func (p Policy) insideOf(total float64, flows []Flow, st Stretch, queueOf func(Flow) int, parts []float64) (shares []float64) {
	wants := make([]policy.Rate, max(1, len(p.Queues)))
	members := make([][]int, len(wants)) // flows of each queue that send in this stretch
	for i, f := range flows {
		d := f.demand()
		if d == 0 || f.From > st.From || f.To < st.To {
			continue
		}
		if q := queueOf(f); q >= 0 {
			members[q] = append(members[q], i)
			wants[q] = add(wants[q], d)
		}
	}
	shares = p.divideQueues(total, wants)
	for q, list := range members {
		p.divideFlows(q, shares[q], wants[q], flows, list, parts)
	}
	return shares
}

func add(a, b policy.Rate) policy.Rate {
	if a == policy.Unlimited || b == policy.Unlimited {
		return policy.Unlimited
	}
	return a + b
}

// divideQueues returns the part of a workload's rate that each queue gets.
func (p Policy) divideQueues(total float64, wants []policy.Rate) []float64 {
	list := make([]float64, len(wants))
	take := func(q int, most float64) {
		got := max(0, min(total, most, float64(wants[q])-list[q]))
		list[q] += got
		total -= got
	}
	switch p.Discipline {
	case discipline.PQ:
		for q := 0; q < len(wants); {
			peers := q + 1 // up to here queues have the same priority
			for peers < len(wants) && p.Queues[q].Priority != 0 && p.Queues[peers].Priority == p.Queues[q].Priority {
				peers++
			}
			var sharers []policy.Sharer
			for _, want := range wants[q:peers] {
				sharers = append(sharers, policy.Sharer{Weight: 1, Demand: want})
			}
			for i, share := range policy.Divide(policy.Rate(max(0, total)), sharers).Shares {
				take(q+i, share.Bps)
			}
			q = peers
		}
	case discipline.LLQ:
		take(0, float64(p.Queues[0].Rate.Rate))
		copy(list[1:], p.weighed(1, total, wants))
		for _, got := range list[1:] {
			total -= got
		}
		take(0, math.Inf(1)) // no other queue waits for the rest
	case discipline.CBWFQ:
		copy(list, p.weighed(0, total, wants))
	default:
		list[0] = min(total, float64(wants[0]))
	}
	return list
}

// weighed divides by the queues' mins, from a queue on.
func (p Policy) weighed(first int, total float64, wants []policy.Rate) []float64 {
	var sharers []policy.Sharer
	for q := first; q < len(wants); q++ {
		sharers = append(sharers, policy.Sharer{Weight: uint32(max(1, p.Queues[q].Min.Rate/1000)), Demand: wants[q]})
	}
	return bps(policy.Divide(policy.Rate(math.Round(max(0, total))), sharers))
}

func bps(d policy.Division) []float64 {
	list := make([]float64, len(d.Shares))
	for i, s := range d.Shares {
		list[i] = s.Bps
	}
	return list
}

// divideFlows fills in what each of queue q's flows gets of what the queue gets.
func (p Policy) divideFlows(q int, got float64, wants policy.Rate, flows []Flow, list []int, parts []float64) {
	switch {
	case len(list) == 1:
		parts[list[0]] = got
	case p.Discipline.OrDefault() == discipline.SFQ || q == p.Asked().Turns():
		p.divideUnits(got, flows, list, parts)
	case got >= float64(wants)*0.9999:
		for _, i := range list {
			parts[i] = float64(flows[i].demand())
		}
	}
}

// divideUnits does so where flows take turns, which gives each flow, or each host, as much: an
// entry has what all its streams get, or what its host gets if it is alone there.
func (p Policy) divideUnits(got float64, flows []Flow, list []int, parts []float64) {
	sharers, entries, found := []policy.Sharer{}, [][]int{}, map[any]int{} // of each unit; which of them it is
	for _, i := range list {
		unit, weight := p.unit(i, flows[i])
		n, known := found[unit]
		if !known {
			n, found[unit] = len(sharers), len(sharers)
			sharers, entries = append(sharers, policy.Sharer{Weight: weight}), append(entries, nil)
		}
		sharers[n].Demand, entries[n] = add(sharers[n].Demand, flows[i].demand()), append(entries[n], i)
	}
	for n, share := range bps(policy.Divide(policy.Rate(math.Round(got)), sharers)) {
		if len(entries[n]) == 1 {
			parts[entries[n][0]] = share
		}
	}
}

// unit returns what sfq takes flow i for, and how many flows that is.
func (p Policy) unit(i int, f Flow) (unit any, weight uint32) {
	from, to := f.Ends()
	if p.Isolation == discipline.ByFlow {
		return i, uint32(f.Streams)
	}
	return map[discipline.Isolation]any{discipline.BySource: from, discipline.ByDestination: to, discipline.ByHosts: [2]netip.Addr{from, to}}[p.Isolation], 1
}
