// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"

	"weir/internal/core/paths"
	"weir/internal/host/dataplane/mark/chain"
	"weir/internal/host/discover"
	"weir/internal/host/discover/look"
)

// ways follows the paths of workloads, woken by changes of devices.
type ways struct {
	*look.Watcher
	links *discover.Links
}

func newPaths(links *discover.Links) (ways, error) {
	w, err := look.New(new(chain.XDP).Linked)
	return ways{w, links}, err
}

// Run implements past.Watcher.
func (w ways) Run(ctx context.Context, report func(paths.Result)) error {
	changes, stop := w.links.Watch()
	defer stop()
	return w.Watcher.Run(ctx, changes, report)
}
