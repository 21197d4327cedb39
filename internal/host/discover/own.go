// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"maps"
	"slices"

	"weir/internal/core/workload"
)

// Own is a Source of parts of Weir: by their names, the folders of the cgroups that their sockets
// are made in. They are there from the beginning to the end, and have no devices.
type Own map[string][]string

// Name returns "own".
func (Own) Name() string { return workload.KindOwn }

// Run reports them once and waits for the end.
func (o Own) Run(ctx context.Context, report func([]Workload)) error {
	var list []Workload
	for _, name := range slices.Sorted(maps.Keys(o)) {
		list = append(list, Workload{Key: workload.Key(workload.KindOwn, name), Name: name, Kind: workload.KindOwn, Sockets: o[name]})
	}
	report(list)
	<-ctx.Done()
	return nil
}
