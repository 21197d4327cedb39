// SPDX-License-Identifier: Apache-2.0

package apitest

import (
	"context"
	"time"

	"weir/internal/api"
	"weir/internal/core/event"
)

// Events implements api.Agent: web was refused a min, ten minutes before that eth0 was gone for a
// minute.
func (f *Fake) Events(_ context.Context, q api.EventQuery) (api.Events, error) {
	gone := event.Event{ID: 1, At: Start.Add(-10 * time.Minute), Kind: "link-gone", State: event.Begin, Severity: event.Error,
		Subject: event.Subject{Type: event.Link, Name: "eth0", Direction: "egress"}, Text: "link eth0: no such device", Remedy: "bring the device up", Began: Start.Add(-10 * time.Minute)}
	back := gone
	back.ID, back.At, back.State, back.Text, back.Remedy = 2, Start.Add(-9*time.Minute), event.End, "link eth0 is there and steered again", ""
	refused := event.Event{ID: 3, At: Start, Kind: "refused", State: event.Begin, Severity: event.Warning, Subject: event.Subject{Type: event.Workload, Name: "web"},
		Text: "web: link eth0: min is not in force", Remedy: "ask for less", Began: Start}
	all := api.Events{Open: []event.Event{refused}}
	for _, e := range []event.Event{gone, back, refused} {
		if e.ID > q.Since {
			all.Recent = append(all.Recent, e)
		}
	}
	return all, f.Fail
}
