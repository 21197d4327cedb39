// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"net/url"

	"weir/internal/core/policy/division"
)

// DivisionQuery asks how a link would be divided. It travels as a query.
type DivisionQuery struct {
	Capacity  string   `query:"capacity" required:"true" maxLength:"32" doc:"of the link" example:"100mbit"`
	Workloads []string `query:"workload,explode" required:"true" minItems:"1" maxItems:"100" doc:"a workload's name and its fields: weight, min, max, and demand, which is what it wants to send (without it, all that it can get; none: nothing)" example:"web,weight=3,min=20mbit,demand=50mbit"`
}

// Division is how a link would be divided.
type Division = division.Division

// Divide asks how a link would be divided.
func (c *Client) Divide(ctx context.Context, q DivisionQuery) (Division, error) {
	values := url.Values{"capacity": {q.Capacity}, "workload": q.Workloads}
	return call[Division](ctx, c, http.MethodGet, "/v1/divide?"+values.Encode(), nil)
}

// Divide divides the link of the query by the formula that agents, admission and explanations
// use. It looks at nothing but the query.
func (q DivisionQuery) Divide() (Division, error) {
	d, err := division.Of(q.Capacity, q.Workloads)
	if err != nil {
		return Division{}, Mistake(err)
	}
	return d, nil
}
