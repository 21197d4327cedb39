// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// The kinds of a row of usage.
const (
	UsageOfLink     = "link" // all that its workloads sent and received by it, the host included
	UsageOfGroup    = "group"
	UsageOfWorkload = "workload"
)

// UsageKinds are the kinds of rows, in the order in which an answer has them.
var UsageKinds = []string{UsageOfLink, UsageOfGroup, UsageOfWorkload}

// The parts into which usage is divided.
const (
	UsageByTotal = "total"
	UsageByDay   = "day"
	UsageByHour  = "hour"
)

// UsageBy are these parts.
var UsageBy = []string{UsageByTotal, UsageByDay, UsageByHour}

// UsageQuery asks how much was sent and received. It travels as a query.
type UsageQuery struct {
	Since  time.Time `query:"since" doc:"from the hour that this moment is in; without it, all that is kept (400 days)" example:"2026-11-22T00:00:00Z"`
	Until  time.Time `query:"until" doc:"only the hours that begin before this moment"`
	By     string    `query:"by" doc:"divide by total (the default), day or hour; days are those of the host's time zone" example:"day"`
	Object string    `query:"object" doc:"only the workload, group or link of this name" example:"web"`
}

// Usage is how much was sent and received.
type Usage struct {
	Rows []UsageRow `json:"rows" doc:"by time, kind and name; what sent and received nothing has no row"`
}

// UsageRow is what a workload, a group or a link sent and received.
type UsageRow struct {
	At            *time.Time `json:"at,omitempty" doc:"begin of the hour or day"`
	Kind          string     `json:"kind" enum:"link,group,workload" doc:"what a workload sends is in the row of its link, and in that of its group, too"`
	Name          string     `json:"name"`
	Device        string     `json:"device" doc:"the link's"`
	SentBytes     uint64     `json:"sent_bytes" doc:"bytes on the wire that left"`
	ReceivedBytes uint64     `json:"received_bytes" doc:"bytes on the wire that came in, where the link divides ingress"`
	// ReceivedUncounted tells a ReceivedBytes of 0 that nothing counts from one that is
	// measured.
	ReceivedUncounted bool `json:"received_uncounted,omitempty" doc:"received_bytes is 0 because nothing counts what it receives: the link divides no ingress, or its packets pass no device of its own"`
}

// Usage asks how much was sent and received.
func (c *Client) Usage(ctx context.Context, q UsageQuery) (Usage, error) {
	v := url.Values{}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339))
		}
	}
	for name, text := range map[string]string{"by": q.By, "object": q.Object} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return call[Usage](ctx, c, http.MethodGet, "/v1/usage?"+v.Encode(), nil)
}

// The states of a quota.
const (
	QuotaWithin  = "within"
	QuotaNear    = "near" // 80 % and more are used
	QuotaReached = "reached"
)

// QuotaStanding is how far a workload or group has come with its quota.
type QuotaStanding struct {
	State         string    `json:"state" enum:"within,near,reached" doc:"near: 80 % and more are used"`
	Since         time.Time `json:"since" doc:"begin of the present period"`
	Until         time.Time `json:"until" doc:"its end, when counting begins anew"`
	SentBytes     uint64    `json:"sent_bytes" doc:"in the period"`
	ReceivedBytes uint64    `json:"received_bytes" doc:"in the period"`
	LeftBytes     uint64    `json:"left_bytes" doc:"until the next of its sizes is reached"`
	UsedPart      float64   `json:"used_part" doc:"of the size of which most is used; 1 is all of it"`
	InForce       string    `json:"in_force,omitempty" doc:"what holds because it is reached" example:"a max of 5mbit"`
	Text          string    `json:"text" doc:"all that in sentences"`
}
