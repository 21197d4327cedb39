// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"weir/internal/invalid"
	"weir/internal/policy"
	"weir/internal/refusal"
)

// DivisionQuery asks how a link would be divided. It travels as a query.
type DivisionQuery struct {
	Capacity  string   `query:"capacity" required:"true" maxLength:"32" doc:"of the link" example:"100mbit"`
	Workloads []string `query:"workload,explode" required:"true" minItems:"1" maxItems:"100" doc:"a workload's name and its fields: weight, min, max, and demand, which is what it wants to send (without it, all that it can get; none: nothing)" example:"web,weight=3,min=20mbit,demand=50mbit"`
}

// Division is how a link would be divided.
type Division struct {
	CapacityBps uint64          `json:"capacity_bps"`
	ReservedBps uint64          `json:"reserved_bps" doc:"sum of the mins"`
	LevelBps    float64         `json:"level_bps" doc:"L of the contract: rate per unit of weight"`
	Refused     string          `json:"refused,omitempty" doc:"why an agent would not take these mins; the shares are then what a link that has shrunk would have"`
	Shares      []DivisionShare `json:"shares" doc:"in the order of the query"`
}

// DivisionShare is the part of one workload.
type DivisionShare struct {
	Name     string  `json:"name"`
	IdealBps float64 `json:"ideal_bps"`
	Binds    string  `json:"binds" enum:"min,max,share,demand,idle" doc:"what decides its rate"`
}

// Divide asks how a link would be divided.
func (c *Client) Divide(ctx context.Context, q DivisionQuery) (Division, error) {
	values := url.Values{"capacity": {q.Capacity}, "workload": q.Workloads}
	return call[Division](ctx, c, http.MethodGet, "/v1/divide?"+values.Encode(), nil)
}

// Divide divides the link of the query by the formula that agents, admission and explanations
// use. It looks at nothing but the query.
func (q DivisionQuery) Divide() (Division, error) {
	capacity, err := policy.ParseRate(q.Capacity)
	if err != nil {
		return Division{}, Mistake(invalid.InField("capacity", err))
	}
	if capacity == 0 {
		return Division{}, &refusal.Error{Kind: refusal.Invalid, Field: "capacity", Value: q.Capacity, Msg: "a link of nothing cannot be divided", Remedy: "give a rate such as 100mbit"}
	}
	claims := make([]policy.Claim, len(q.Workloads))
	floors := make([]policy.Floor, len(q.Workloads))
	d := Division{CapacityBps: uint64(capacity), Shares: make([]DivisionShare, len(q.Workloads))}
	for i, text := range q.Workloads {
		if d.Shares[i].Name, claims[i], err = readClaim(text, capacity); err != nil {
			return Division{}, Mistake(invalid.InField("workload", err))
		}
		floors[i].Min = claims[i].Min
	}
	reserved := policy.Sum(floors)
	d.ReservedBps = uint64(reserved)
	if reserved > capacity {
		d.Refused = "the mins add up to " + reserved.String() + ", which is more than the link's " + capacity.String()
	}
	result := policy.Divide(capacity, claims)
	d.LevelBps = result.Level
	for i, share := range result.Shares {
		d.Shares[i].IdealBps, d.Shares[i].Binds = share.Bps, string(share.Binds)
	}
	return d, nil
}

// readClaim reads "web,weight=3,min=20mbit".
func readClaim(text string, capacity policy.Rate) (name string, claim policy.Claim, err error) {
	name, rest, _ := strings.Cut(text, ",")
	claim.Demand = policy.Unlimited
	var change policy.Change
	for part := range strings.SplitSeq(rest, ",") {
		if part == "" {
			continue
		}
		field, value, _ := strings.Cut(part, "=")
		switch field {
		case "demand":
			claim.Demand, err = readDemand(value, capacity)
		case "weight", "min", "max":
			err = change.Put(field, value)
		default:
			err = &invalid.Error{Value: part, Msg: "a workload of a division has no such field", Remedy: "give weight, min, max or demand"}
		}
		if err != nil {
			return name, claim, err
		}
	}
	if err := change.Check(); err != nil {
		return name, claim, err
	}
	p := change.Apply(policy.Default())
	claim.Weight, claim.Min, claim.Max = p.Weight, p.Min.Of(capacity), p.Max.Of(capacity)
	return name, claim, nil
}

func readDemand(text string, capacity policy.Rate) (policy.Rate, error) {
	amount, err := policy.ParseAmount(text)
	if err != nil {
		return 0, invalid.InField("demand", err)
	}
	return amount.Of(capacity), nil // none is 0
}
