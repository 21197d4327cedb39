// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"time"

	"weir/internal/base/audit"
	"weir/internal/base/crowd"
	"weir/internal/core/refusal"
)

// Readers at once of what has long files, of one user and of all, and how often a user with the
// role view may read: a query about one object reads all of the audit log, up to 144 MB, or 400
// days of the usage.
const (
	changersReads, allChangersReads = 4, 16
	viewersReads, allViewersReads   = 1, 2
	readsAtOnce, readEvery          = 10, time.Second
)

// Reads bounds the requests that read long files.
type Reads struct {
	changers, viewers RequestSlots
	often             crowd.Rates
}

// NewReads returns the bounds for one route.
func NewReads() *Reads {
	return &Reads{changers: RequestSlots{Each: changersReads, All: allChangersReads}, viewers: RequestSlots{Each: viewersReads, All: allViewersReads},
		often: crowd.Rates{Burst: readsAtOnce, Every: readEvery}}
}

// Enter counts a request until leave, or refuses it.
func (r *Reads) Enter(ctx context.Context, who audit.Who) (leave func(), err error) {
	slots := &r.changers
	if Viewer(ctx) {
		slots = &r.viewers
	}
	leave, ok := slots.Enter(who)
	if ok && Viewer(ctx) && !r.often.Take(userKey(who), time.Now()) {
		leave()
		ok = false
	}
	if !ok {
		return nil, &refusal.Error{Kind: refusal.TooMany, Msg: "too many such requests", Remedy: "ask again in a second"}
	}
	return leave, nil
}
