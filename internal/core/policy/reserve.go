// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/bits"

	"weir/internal/core/invalid"
)

// Direction says which way packets go, seen from the workload.
type Direction string

// The two directions of a link.
const (
	Egress  Direction = "egress"  // upload: what leaves the workload
	Ingress Direction = "ingress" // download: what comes to it
)

// A TCP segment of full size in an Ethernet frame of the usual MTU, without checksum: 14
// bytes of Ethernet, 20 of IPv4, 32 of TCP with timestamps, and the payload. FRAME in
// bpf/core/packets.h is the same number as FullFrame.
const (
	FullFrame   = 1514
	FullPayload = 1448
)

// WireOf returns the wire rate of a goodput in bits per second, if it comes in
// TCP segments of full size and none is lost. overhead is the number of bytes that the
// link adds to each packet. A reservation holds this rate free on a link: 10 Mbit/s of
// payload are 10,455,802 bit/s of frames. Smaller packets take more; the
// controller sends them sooner, but only out of capacity that no other workload was
// promised.
func WireOf(goodput Rate, overhead int) Rate {
	hi, lo := bits.Mul64(uint64(goodput), uint64(max(FullFrame+overhead, FullPayload)))
	if hi >= FullPayload {
		return Unlimited
	}
	wire, rest := bits.Div64(hi, lo, FullPayload)
	if rest != 0 {
		wire++
	}
	return Rate(wire)
}

// GoodputOf returns the goodput at a wire rate, the opposite of WireOf, rounded down.
func GoodputOf(wire Rate, overhead int) Rate {
	hi, lo := bits.Mul64(uint64(wire), FullPayload)
	goodput, _ := bits.Div64(hi, lo, uint64(max(FullFrame+overhead, FullPayload))) // hi < divisor
	return Rate(goodput)
}

// In returns the promise for one direction. A policy may say nothing of ingress,
// which then has the default.
func (p Policy) In(d Direction) Policy {
	if d == Egress {
		p.Ingress = nil
		return p
	}
	if p.Ingress == nil {
		return Default()
	}
	return *p.Ingress
}

// Reserved returns the goodput that the workload and its queues have reserved together
// on a link of this capacity, in bits per second; 0 = none.
func (p Policy) Reserved(capacity Rate) Rate {
	var queues []Floor
	for _, q := range p.Queues {
		queues = append(queues, Floor{Name: q.Name, Min: q.Reserve.Of(capacity)})
	}
	return max(p.Reserve.Of(capacity), Sum(queues))
}

// Floor returns the rate that the workload is guaranteed on a link, wire bits per
// second: its min, or the wire rate of its reservations.
func (p Policy) Floor(capacity Rate, overhead int) Rate {
	return max(p.Min.Of(capacity), WireOf(p.Reserved(capacity), overhead))
}

// checkIngress reports the first mistake in what was said of the other direction.
func (p Policy) checkIngress() error {
	if p.Ingress == nil {
		return nil
	}
	if p.Ingress.Ingress != nil {
		return &invalid.Error{Field: "ingress.ingress", Msg: "there is no ingress of ingress", Remedy: "write its fields one level up"}
	}
	if p.Ingress.Group != "" {
		return &invalid.Error{Field: "ingress.group", Value: p.Ingress.Group, Msg: "a workload is in the same group in both directions",
			Remedy: "write group beside ingress, not inside it"}
	}
	return invalid.Within("ingress", p.Ingress.Check())
}

// checkReserve refuses a reservation above the workload's max, since the workload gets
// its reservation and no more, and queues that reserve more than the workload has.
func (p Policy) checkReserve(capacity Rate, overhead int) error {
	if reserve := p.Reserve.Of(capacity); reserve != 0 {
		if limit := p.Max.Of(capacity); limit != 0 && WireOf(reserve, overhead) > limit {
			return &invalid.Error{Field: "reserve", Value: p.Reserve.Compact(),
				Msg: fmt.Sprintf("%s of payload take %s on the wire, above the max, %s",
					p.Reserve.on(capacity), Approx(float64(WireOf(reserve, overhead))), p.Max.on(capacity)),
				Remedy: fmt.Sprintf("write %s or less, or raise max", GoodputOf(limit, overhead).Compact())}
		}
		if floor := p.Min.Of(capacity); floor > WireOf(reserve, overhead) {
			return &invalid.Error{Field: "reserve", Value: p.Reserve.Compact(),
				Msg: fmt.Sprintf("%s of payload take %s on the wire, and the workload is sent no more than that: its min, %s, could not be used",
					p.Reserve.on(capacity), Approx(float64(WireOf(reserve, overhead))), p.Min.on(capacity)),
				Remedy: "do without the min; a reservation is guaranteed as well"}
		}
		if queues := (Policy{Queues: p.Queues}).Reserved(capacity); queues > reserve {
			return &invalid.Error{Field: "reserve", Value: p.Reserve.Compact(),
				Msg:    fmt.Sprintf("its queues reserve %s, %s more", queues, queues-reserve),
				Remedy: fmt.Sprintf("write %s or more, or lower those of the queues", queues.Compact())}
		}
	}
	if limit, queues := p.Max.Of(capacity), p.Reserved(capacity); limit != 0 && WireOf(queues, overhead) > limit {
		return &invalid.Error{Field: "queues", Msg: fmt.Sprintf("they reserve %s of payload, which take %s on the wire, above the workload's max, %s",
			queues, Approx(float64(WireOf(queues, overhead))), p.Max.on(capacity)), Remedy: "lower their reservations, or raise the workload's max"}
	}
	return nil
}
