// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"io"
)

// JSON writes one object per line: for each phase its workloads, then its link.
func JSON(out io.Writer, r *Result) error {
	enc := json.NewEncoder(out)
	for _, p := range r.Phases {
		for _, w := range p.Workloads {
			if err := enc.Encode(w); err != nil {
				return err
			}
		}
		if err := enc.Encode(p.Link); err != nil {
			return err
		}
	}
	return nil
}
