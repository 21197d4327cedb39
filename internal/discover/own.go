// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"

	"weir/internal/workload"
)

// Own is a Source of parts of Weir by their names. They are there from the beginning
// to the end, and have neither devices nor cgroups: they mark their packets
// themselves, at their sockets, with the class that the agent gives them.
type Own []string

// Name returns "own".
func (Own) Name() string { return workload.KindOwn }

// Run reports them once and waits for the end.
func (o Own) Run(ctx context.Context, report func([]Workload)) error {
	var list []Workload
	for _, name := range o {
		list = append(list, Workload{Key: workload.Key(workload.KindOwn, name), Name: name, Kind: workload.KindOwn})
	}
	report(list)
	<-ctx.Done()
	return nil
}
