// SPDX-License-Identifier: Apache-2.0

// Package division divides a link that exists in a question only: workloads with weight, min, max
// and demand in words, as people write them. Example:
//
//	division.Of("100mbit", []string{"web,weight=3,min=20mbit", "batch,demand=none"})
//
// It is for those who try the formula out (package policy), and links little: the documentation
// runs it in a browser.
package division

import (
	"strings"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
)

// Division is how a link would be divided.
type Division struct {
	CapacityBps uint64  `json:"capacity_bps"`
	ReservedBps uint64  `json:"reserved_bps" doc:"sum of the mins"`
	LevelBps    float64 `json:"level_bps" doc:"L of the contract: rate per unit of weight"`
	Refused     string  `json:"refused,omitempty" doc:"why an agent would not take these mins; the shares are then what a link that has shrunk would have"`
	Shares      []Share `json:"shares" doc:"in the order of the query"`
}

// Share is the part of one workload.
type Share struct {
	Name     string  `json:"name"`
	IdealBps float64 `json:"ideal_bps"`
	Binds    string  `json:"binds" enum:"min,max,share,demand,idle" doc:"what decides its rate"`
}

// Of divides a link of this capacity, such as "100mbit", among workloads, such as
// "web,weight=3,min=20mbit,demand=50mbit". An error is an *invalid.Error in its field.
func Of(capacity string, workloads []string) (Division, error) {
	rate, err := policy.ParseRate(capacity)
	if err == nil && rate == 0 {
		err = &invalid.Error{Value: capacity, Msg: "a link of nothing cannot be divided", Remedy: "give a rate such as 100mbit"}
	}
	if err != nil {
		return Division{}, invalid.InField("capacity", err)
	}
	sharers := make([]policy.Sharer, len(workloads))
	floors := make([]policy.Floor, len(workloads))
	d := Division{CapacityBps: uint64(rate), Shares: make([]Share, len(workloads))}
	for i, text := range workloads {
		if d.Shares[i].Name, sharers[i], err = readSharer(text, rate); err != nil {
			return Division{}, invalid.InField("workload", err)
		}
		floors[i].Min = sharers[i].Min
	}
	reserved := policy.Sum(floors)
	d.ReservedBps = uint64(reserved)
	if reserved > rate {
		d.Refused = "the mins add up to " + reserved.String() + ", which is more than the link's " + rate.String()
	}
	result := policy.Divide(rate, sharers)
	d.LevelBps = result.Level
	for i, share := range result.Shares {
		d.Shares[i].IdealBps, d.Shares[i].Binds = share.Bps, string(share.Binds)
	}
	return d, nil
}

// readSharer reads "web,weight=3,min=20mbit".
func readSharer(text string, capacity policy.Rate) (name string, sharer policy.Sharer, err error) {
	name, rest, _ := strings.Cut(text, ",")
	sharer.Demand = policy.Unlimited
	var change policy.Change
	for part := range strings.SplitSeq(rest, ",") {
		if part == "" {
			continue
		}
		field, value, _ := strings.Cut(part, "=")
		switch field {
		case "demand":
			sharer.Demand, err = readDemand(value, capacity)
		case "weight", "min", "max":
			err = change.Put(field, value)
		default:
			err = &invalid.Error{Value: part, Msg: "a workload of a division has no such field", Remedy: "give weight, min, max or demand"}
		}
		if err != nil {
			return name, sharer, err
		}
	}
	if err := change.Check(); err != nil {
		return name, sharer, err
	}
	p := change.Apply(policy.Default())
	sharer.Weight, sharer.Min, sharer.Max = p.Weight, p.Min.Of(capacity), p.Max.Of(capacity)
	return name, sharer, nil
}

func readDemand(text string, capacity policy.Rate) (policy.Rate, error) {
	amount, err := policy.ParseAmount(text)
	if err != nil {
		return 0, invalid.InField("demand", err)
	}
	return amount.Of(capacity), nil // none is 0
}
