// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"

	"weir/internal/core/plan"
	"weir/internal/dev/figures"
	"weir/internal/host/rootlock"
)

// doctorFile holds the cost of a packet that weir doctor and weir status know.
const doctorFile = "internal/host/rootlock/cost.json"

// serial returns the instructions of a packet under the lock of a scheduler's root qdisc: what
// it adds in a case, less the marking, which is the senders'.
func serial(r *figures.Run, scheduler, name string) float64 {
	return added(r, scheduler, name) - added(r, "none, marked", "veths")
}

// doctorCost adds that file: the same figure as in the README's table, and the serial parts. It
// stays as it is while the run is missing.
func (b *built) doctorCost(root string, data *figures.Runs) error {
	run := data.Run("bars/cost-short")
	if run == nil {
		b.left = append(b.left, doctorFile+": bars/cost-short is not measured")
		text, err := os.ReadFile(filepath.Join(root, doctorFile))
		b.add(doctorFile, text)
		return err
	}
	text, err := json.MarshalIndent(rootlock.PacketCost{Instructions: math.Round(added(run, "fair+sfq", "inside")),
		Serial: map[string]float64{
			plan.BackendBPF: math.Round(serial(run, "fair+sfq", "inside")),
			plan.BackendTC:  math.Round(serial(run, "htb+fq_codel", "inside")),
		},
		Kernel: run.Source.Kernel, Commit: run.Source.Commit, Date: run.Source.Date}, "", "\t")
	b.add(doctorFile, append(text, '\n'))
	return err
}
