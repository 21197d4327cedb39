// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"encoding/json"
	"slices"
	"strings"

	"weir/internal/api"
)

// Change returns the change that asks for each named field to be what the text behind it
// says, whether it can be read or not: Change("weight", "3", "ingress.max", "20mbit").
func Change(fieldsAndTexts ...string) api.PolicyChange {
	body := map[string]any{}
	for pair := range slices.Chunk(fieldsAndTexts, 2) {
		in := body
		name, inner := strings.CutPrefix(pair[0], "ingress.")
		if inner {
			if body["ingress"] == nil {
				body["ingress"] = map[string]any{}
			}
			in = body["ingress"].(map[string]any)
		}
		in[name] = pair[1]
	}
	text, err := json.Marshal(body)
	var c api.PolicyChange
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(err)
	}
	return c
}

// GroupChange returns the same change as Change, of a group.
func GroupChange(fieldsAndTexts ...string) api.GroupChange {
	return api.GroupChange{PolicyChange: Change(fieldsAndTexts...)}
}

// Accepting returns a change that also accepts gaps (accept_gaps).
func Accepting(c api.PolicyChange, accept bool) api.PolicyChange {
	c.AcceptGaps = accept
	return c
}
