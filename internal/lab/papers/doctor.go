// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"

	"weir/internal/doctor"
	"weir/internal/lab/figures"
)

// doctorFile holds the cost of a packet that weir doctor knows.
const doctorFile = "internal/doctor/cost.json"

// doctorCost adds that file: the same figure as in the README's table. It stays as it is
// while the run is missing.
func (b *built) doctorCost(root string, data *figures.Data) error {
	run := data.Run("bars/cost-short")
	if run == nil {
		b.left = append(b.left, doctorFile+": bars/cost-short is not measured")
		text, err := os.ReadFile(filepath.Join(root, doctorFile))
		b.add(doctorFile, text)
		return err
	}
	text, err := json.MarshalIndent(doctor.Cost{Instructions: math.Round(added(run, "fair+sfq", "inside")),
		Kernel: run.Source.Kernel, Commit: run.Source.Commit, Date: run.Source.Date}, "", "\t")
	b.add(doctorFile, append(text, '\n'))
	return err
}
