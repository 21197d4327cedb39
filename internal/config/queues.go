// SPDX-License-Identifier: Apache-2.0

package config

import (
	"time"

	"github.com/goccy/go-yaml/token"

	"weir/internal/core/invalid"
	"weir/internal/core/policy"
	"weir/internal/core/policy/discipline"
)

// readQueues reads a mapping or a list of queues.
func readQueues(value node) []policy.Queue {
	queues, faults := policy.QueuesFrom(value.plain())
	for _, f := range faults {
		value.find(f.Field).refuse(invalid.InField("", f))
	}
	return queues
}

// readAQM reads {target: 5ms, interval: 100ms, ecn: true, ce_threshold: 1ms, ack_filter: true}.
func readAQM(value node) discipline.AQM {
	var aqm discipline.AQM
	before := len(value.tree.problems)
	value.fields([]string{"target", "interval", "ecn", "ce_threshold", "ack_filter"}, func(key string, field node) {
		switch key {
		case "ecn":
			readBool(field, &aqm.ECN)
			return
		case "ack_filter":
			readBool(field, &aqm.ACKFilter)
			return
		}
		text, ok := field.text()
		if !ok {
			return
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			field.wrong("%q is no time; write one such as 5ms", text)
			return
		}
		switch key {
		case "target":
			aqm.Target = d
		case "interval":
			aqm.Interval = d
		default:
			aqm.CEThreshold = d
		}
	})
	if len(value.tree.problems) == before {
		value.refuse(aqm.Check())
	}
	return aqm
}

// readGroups reads the groups of workloads.
func (c *Config) readGroups(groups node) {
	groups.each(func(name string, _ *token.Token, value node) {
		if err := policy.CheckGroupName(name); err != nil {
			value.wrong("%v", invalid.InField("", err))
		}
		c.Groups = append(c.Groups, Group{Name: name, Layer: readLayer(value, policy.OnGroup)})
	})
}
