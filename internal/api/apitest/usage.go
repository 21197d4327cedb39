// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"time"

	"weir/internal/api"
)

// Usage implements api.Agent: each workload has sent 1 GB and received 2 GB by its first link in
// the hour before Start.
func (f *Fake) Usage(_ context.Context, q api.UsageQuery) (api.Usage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var u api.Usage
	for _, w := range f.workloads {
		if len(w.Links) == 0 || q.Object != "" && q.Object != w.Name {
			continue
		}
		r := api.UsageRow{Kind: api.UsageOfWorkload, Name: w.Name, Device: w.Links[0].Device, SentBytes: 1e9, ReceivedBytes: 2e9}
		if q.By == api.UsageByDay || q.By == api.UsageByHour {
			r.At = new(Start.Add(-time.Hour))
		}
		u.Rows = append(u.Rows, r)
	}
	return u, nil
}
