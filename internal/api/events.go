// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"

	"weir/internal/core/event"
)

// EventQuery asks for events. It travels as a query.
type EventQuery struct {
	Since uint64 `query:"since" doc:"only events with a higher id; without it, all that are kept (500)" example:"41"`
}

// Events are the conditions that hold, and what began and ended of late.
type Events struct {
	Open   []event.Event `json:"open" doc:"begins of what is not over, the oldest first; texts are of now"`
	Recent []event.Event `json:"recent" doc:"begins and ends, the newest last"`
}

// Events asks for events.
func (c *Client) Events(ctx context.Context, q EventQuery) (Events, error) {
	return call[Events](ctx, c, http.MethodGet, fmt.Sprintf("/v1/events?since=%d", q.Since), nil)
}

// EventStatus counts events.
type EventStatus struct {
	Begun map[string]uint64 `json:"begun" doc:"conditions that have begun since the agent was started, by kind"`
	Open  map[string]uint64 `json:"open" doc:"conditions that hold, by kind"`
	Sinks []EventSink       `json:"sinks" doc:"the webhook and the command of the configuration's tell"`
}

// EventSink is a way by which events leave the host.
type EventSink struct {
	Name        string `json:"name" enum:"webhook,command"`
	To          string `json:"to" doc:"the server, or the program"`
	Waiting     int    `json:"waiting" doc:"events that it has not taken yet"`
	Delivered   uint64 `json:"delivered" doc:"since the agent was started"`
	Undelivered uint64 `json:"undelivered" doc:"given up since the agent was started"`
	Error       string `json:"error,omitempty" doc:"why the last attempt failed, if it did"`
}
