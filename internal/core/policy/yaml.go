// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"strings"

	"weir/internal/core/bound"
	"weir/internal/core/invalid"
	"weir/internal/core/yamltree"
)

// ParseQueues reads queues as weir.yaml has them, in YAML's block or flow style or
// in JSON: a mapping of names to queues, or a list of queues with names. Example:
//
//	voice: {rate: 1mbit, match: [{udp: 5001}]}
//	rest: {}
//
// "none", or nothing, is no queue. The error is an *invalid.Error; its field is such as
// "queues.voice.rate".
func ParseQueues(text string) ([]Queue, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return []Queue{}, nil
	}
	tree, err := yamltree.Parse(text, bound.Policy, bound.Levels)
	if err != nil {
		return nil, &invalid.Error{Field: "queues", Value: text, Msg: err.Error(), Remedy: queuesRemedy}
	}
	queues, faults := QueuesFrom(tree)
	if len(faults) > 0 {
		first := *faults[0]
		if strings.HasPrefix(first.Field, "[") || first.Field == "" {
			first.Field = "queues" + first.Field
		} else {
			first.Field = "queues." + first.Field
		}
		first.Value = cmp.Or(first.Value, text)
		return nil, &first
	}
	return queues, nil
}
