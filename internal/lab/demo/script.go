// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"time"

	"weir/internal/core/policy"
	"weir/internal/lab/scenario"
)

// capacity of the link.
const capacity policy.Rate = 100e6

// Workloads of the demo by their place in the script.
const (
	camera = iota
	web
	backup
)

// act holds the explanation of a phase beyond the scenario.
type act struct {
	title string
	why   string // in a sentence
}

var acts = []act{
	{"weights 1, 2 and 3", "The link is divided by weight: a sixth, two sixths, three sixths."},
	{"camera: min 30 Mbit/s", "A sixth is too little for the camera. Its min counts, the others share the rest by weight."},
	{"backup: max 15 Mbit/s", "The backup has time. The rate that it leaves goes to the others: no capacity is wasted."},
}

// script returns the demo as a scenario. Each phase lasts length; its first settle is not
// judged: TCP needs some of it, and so does the fallback.
func script(length, settle time.Duration) *scenario.Scenario {
	greedy := []scenario.Traffic{{Kind: scenario.TCP, Streams: 1}}
	atLeast, atMost := policy.Rate(30e6), policy.Rate(15e6)
	return &scenario.Scenario{
		File:   "demo",
		Name:   fmt.Sprintf("Three workloads share %v", capacity),
		Link:   scenario.Link{Bandwidth: capacity},
		Settle: settle,
		Workloads: []scenario.Workload{
			camera: {Name: "camera", Policy: scenario.Policy{Weight: 1}, Traffic: greedy},
			web:    {Name: "web", Policy: scenario.Policy{Weight: 2}, Traffic: greedy},
			backup: {Name: "backup", Policy: scenario.Policy{Weight: 3}, Traffic: greedy},
		},
		Phases: []scenario.Phase{
			{For: length},
			{For: length, Set: []scenario.WorkloadChange{{Workload: camera, Min: &atLeast}}},
			{For: length, Set: []scenario.WorkloadChange{{Workload: backup, Max: &atMost}}},
		},
	}
}

// command returns the command line of weir that makes a change of the script.
func command(s *scenario.Scenario, c scenario.WorkloadChange) []string {
	args := []string{"set", s.Workloads[c.Workload].Name}
	if c.Weight != nil {
		args = append(args, "--weight", fmt.Sprint(*c.Weight))
	}
	if c.Min != nil {
		args = append(args, "--min", c.Min.Compact())
	}
	if c.Max != nil {
		args = append(args, "--max", c.Max.Compact())
	}
	return args
}

// promised returns the rate that the contract gives each workload in a phase.
func promised(s *scenario.Scenario, phase int) []float64 {
	span := s.Spans()[phase]
	return scenario.IdealOver(s.Ideals(nil), span.Measured, span.To, len(s.Workloads))
}

// terms returns a workload's policy in a phase in a few words.
func terms(p scenario.Policy) string {
	text := fmt.Sprintf("weight %d", p.Weight)
	if p.Min != 0 {
		text += fmt.Sprintf(", min %v", p.Min)
	}
	if p.Max != 0 {
		text += fmt.Sprintf(", max %v", p.Max)
	}
	return text
}
