// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Cost is the number of instructions that Weir's BPF qdisc adds to a packet, as the lab
// has counted them.
type Cost struct {
	Instructions float64 `json:"instructions"` // marking included
	Kernel       string  `json:"kernel"`       // as uname -r prints it
	Commit       string  `json:"commit"`
	Date         string  `json:"date"`
}

// String returns the cost in a sentence, with the commit, the kernel and the date of its
// measurement.
func (c Cost) String() string {
	return fmt.Sprintf("the lab counted %.0f instructions that Weir adds to a packet (commit %.12s, Linux %s, %s)", c.Instructions, c.Commit, c.Kernel, c.Date)
}

// costFile is made from docs/papers/data by make figures; make check fails where they
// disagree.
//
//go:embed cost.json
var costFile []byte

var cost = func() (c Cost) {
	if err := json.Unmarshal(costFile, &c); err != nil {
		panic(fmt.Sprintf("internal/doctor/cost.json: %v; run make figures", err))
	}
	return c
}()
