// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"weir/internal/policy"
)

// queueFields are the fields of a queue; in a list of queues there is also name.
var queueFields = []string{"rate", "min", "reserve", "match", "dscp", "limit_packets", "priority"}

// ParseQueues reads queues as weir.yaml has them, in YAML's block or flow style or
// in JSON: a mapping of names to queues, or a list of queues with names. Example:
//
//	voice: {rate: 1mbit, match: [{udp: 5001}]}
//	rest: {}
//
// "none", or nothing, is no queue. The error is a *policy.Error; its field is such
// as "queues.voice.rate".
func ParseQueues(text string) ([]policy.Queue, error) {
	if text = strings.TrimSpace(text); text == "" || strings.EqualFold(text, "none") {
		return []policy.Queue{}, nil
	}
	refuse := func(field, msg string) error {
		return &policy.Error{Field: cmp.Or(field, "queues"), Value: text, Msg: msg,
			Remedy: "write it as {voice: {rate: 1mbit, match: [{udp: 5001}]}, rest: {}}"}
	}
	root, err := parseTree([]byte(text))
	if err != nil {
		return nil, refuse("", err.Error())
	}
	root.path = "queues"
	var queues []policy.Queue
	if len(root.tree.problems) == 0 {
		queues = readQueues(root.resolve())
	}
	if problems := root.tree.problems; len(problems) > 0 {
		if mistake := problems[0].mistake; mistake != nil {
			return nil, policy.InField(problems[0].Field, mistake)
		}
		return nil, refuse(problems[0].Field, problems[0].Msg)
	}
	return queues, nil
}

// readQueues reads a mapping or a list of queues.
func readQueues(value node) []policy.Queue {
	queues := []policy.Queue{}
	if _, ok := value.ast.(*ast.SequenceNode); ok {
		value.items(func(item node) {
			q := policy.Queue{}
			item.fields(append([]string{"name"}, queueFields...), func(key string, field node) {
				if key == "name" {
					if readText(field, &q.Name); !field.given() {
						item.wrong("name is missing; say what the queue is to be called")
					}
					return
				}
				readQueueField(&q, key, item, field)
			})
			queues = append(queues, q)
		})
		return queues
	}
	value.each(func(name string, _ *token.Token, fields node) {
		q := policy.Queue{Name: name}
		fields.fields(queueFields, func(key string, field node) { readQueueField(&q, key, fields, field) })
		queues = append(queues, q)
	})
	return queues
}

func readQueueField(q *policy.Queue, key string, in, value node) {
	if key == "match" {
		if !value.given() {
			return
		}
		matches, err := policy.ParseMatches(value.plain())
		in.ast = value.ast // for the place; the error's own field begins with match
		in.refuse(err)
		q.Match = matches
		return
	}
	text, ok := value.text()
	if !ok {
		return
	}
	var err error
	switch key {
	case "rate":
		q.Rate, err = policy.ParseAmount(text)
	case "min":
		q.Min, err = policy.ParseAmount(text)
	case "reserve":
		q.Reserve, err = policy.ParseAmount(text)
	case "dscp":
		q.DSCP, err = ParseMarking(text)
	case "priority":
		var n uint64
		if n, err = strconv.ParseUint(text, 10, 8); err != nil || n == 0 {
			err = &policy.Error{Value: text, Msg: "is no priority", Remedy: "write 1 for what goes first, 2 for what goes after it, and so on"}
		}
		q.Priority = uint8(n)
	case "limit_packets":
		var n uint64
		if n, err = strconv.ParseUint(text, 10, 32); err != nil {
			err = notACount(key, text, "packets")
		}
		q.LimitPackets = uint32(n)
	}
	value.refuse(err)
}

// readAQM reads {target: 5ms, interval: 100ms}.
func readAQM(value node) policy.AQM {
	var aqm policy.AQM
	before := len(value.tree.problems)
	value.fields([]string{"target", "interval"}, func(key string, field node) {
		text, ok := field.text()
		if !ok {
			return
		}
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			field.wrong("%q is no time; write one such as 5ms", text)
			return
		}
		if key == "target" {
			aqm.Target = d
		} else {
			aqm.Interval = d
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
			value.wrong("%v", policy.InField("", err))
		}
		c.Groups = append(c.Groups, Group{Name: name, Layer: readLayer(value, GroupFields)})
	})
}
