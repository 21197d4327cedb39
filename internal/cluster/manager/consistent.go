// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"weir/internal/api"
	"weir/internal/cluster/manager/moves"
	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// consistent refuses a request for a place whose change guarantees something else than the
// place is sought for: the target applies the change, and its room was found for MinBps.
// A part of a link is another amount on another link, so the node says how much it is. A
// change without a min is about one that a label or the configuration asks for.
func consistent(r wire.PlaceRequest) error {
	change, err := readChange(r.Change)
	var mistake *invalid.Error
	switch {
	case errors.As(err, &mistake):
		return wrong("change."+mistake.Field, mistake.Value, invalid.InField("", mistake).Error())
	case err != nil:
		return wrong("change", string(r.Change), "cannot be read: "+err.Error())
	}
	var most policy.Rate
	asked := change.To()
	for _, f := range []struct {
		field string
		value policy.Amount
	}{{"change.min", asked.Min}, {"change.reserve", asked.Reserve}} {
		switch rate := f.value.Of(0); {
		case f.value.Percent > 0:
			return wrong(f.field, f.value.Compact(), "is a part of a link, which is another amount on another node")
		case rate > policy.Rate(r.MinBps):
			return wrong(f.field, f.value.Compact(), fmt.Sprintf("is %s, and a place is sought for %s (min_bps)", rate, policy.Rate(r.MinBps)))
		default:
			most = max(most, rate)
		}
	}
	switch value := fmt.Sprint(r.MinBps); {
	case r.MinBps == 0:
		return wrong("min_bps", value, "is nothing to find a place for")
	case most > 0 && most < policy.Rate(r.MinBps):
		return wrong("min_bps", value, fmt.Sprintf("is more than the change asks for, %s", most))
	}
	return nil
}

func wrong(field, value, msg string) error {
	return &refusal.Error{Kind: refusal.Invalid, Field: field, Value: wire.Clip(value, moves.MaxStepError), Msg: msg, Remedy: "run the same Weir on manager and nodes"}
}

// readChange reads a change of a policy, in which every field is known.
func readChange(text wire.ChangeJSON) (c api.PolicyChange, err error) {
	if len(text) == 0 {
		return c, nil
	}
	return c, cmp.Or(json.Unmarshal(text, &c), c.Readable())
}
