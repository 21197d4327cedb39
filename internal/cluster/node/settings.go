// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/wire"
)

const (
	policyBefore = 5 * time.Second  // to ask the own agent
	found        = 10 * time.Second // for which a container that has just arrived may not be found yet
)

// policy is what was set at run time for a container here, to go with it; nil if this
// node's agent knows nothing of it. It begins with a reset: what a container of that
// name was told on its next node in another life does not count.
func (m *moves) policy(ctx context.Context, container string) wire.Change {
	if m.node.opts.Agent == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, policyBefore)
	defer cancel()
	w, err := m.node.opts.Agent.Workload(ctx, container)
	if err != nil {
		return nil
	}
	change := settings(w.Policy, w.Origin, "")
	if w.Policy.Ingress != nil {
		if ingress := settings(*w.Policy.Ingress, w.Origin, "ingress."); !ingress.Empty() {
			change.Ingress = &ingress
		}
	}
	change.Reset = true
	text, err := json.Marshal(change)
	if err != nil {
		return nil
	}
	return text
}

// settings are the fields of a policy that were set at run time; prefix is what the
// origins' names begin with.
func settings(p api.Policy, origin map[string]string, prefix string) api.PolicyChange {
	var c api.PolicyChange
	set := func(field string) bool { return origin[prefix+field] == "set" }
	none := func(s string) *string { return new(cmp.Or(s, "none")) }
	if set("weight") {
		c.Weight = new(p.Weight)
	}
	if set("min") {
		c.Min = none(p.Min)
	}
	if set("max") {
		c.Max = none(p.Max)
	}
	if set("reserve") {
		c.Reserve = none(p.Reserve)
	}
	if set("limit_packets") {
		c.LimitPackets = new(p.LimitPackets)
	}
	if set("limit_bytes") {
		c.LimitBytes = new(p.LimitBytes)
	}
	if set("discipline") {
		c.Discipline = new(p.Discipline)
	}
	if set("queues") {
		c.Queues = new(append([]api.Queue{}, p.Queues...))
	}
	if set("aqm") {
		c.AQM = new(cmp.Or(p.AQM, "default"))
	}
	if set("dscp") {
		c.DSCP = none(p.DSCP)
	}
	if set("group") {
		c.Group = none(p.Group)
	}
	return c
}

// set puts into force what the manager orders. Of what came with a container (Apply.Parts)
// whatever this node can hold holds; the error says what it cannot.
func (n *Node) set(ctx context.Context, a wire.Apply) error {
	if n.opts.Agent == nil {
		return errors.New("no agent steers this node's link")
	}
	var c api.PolicyChange
	if err := json.Unmarshal(a.Change, &c); err != nil {
		return fmt.Errorf("change cannot be read: %w", err)
	}
	if c.Empty() {
		return nil
	}
	err := n.setFound(ctx, a.Workload, c)
	if err == nil || !a.Parts || !mayHoldInParts(err) {
		return err
	}
	var refusals []string
	for _, part := range parts(c) {
		switch err := n.setFound(ctx, a.Workload, part); {
		case err == nil:
		case ctx.Err() != nil:
			return err
		default:
			refusals = append(refusals, err.Error())
		}
	}
	return errors.New(strings.Join(refusals, "; "))
}

// mayHoldInParts reports whether a refusal is about a part of a change: a min without
// room, a group that is not known here, an ingress that nobody steers.
func mayHoldInParts(err error) bool {
	var refused *api.Error
	return errors.As(err, &refused) && (refused.Status == http.StatusConflict || refused.Status == http.StatusUnprocessableEntity)
}

// parts are a change's fields in changes of their own, the reset first. Discipline and
// queues make sense together only.
func parts(c api.PolicyChange) (list []api.PolicyChange) {
	add := func(p api.PolicyChange) {
		if !p.Empty() {
			list = append(list, p)
		}
	}
	add(api.PolicyChange{Reset: c.Reset})
	add(api.PolicyChange{Weight: c.Weight})
	add(api.PolicyChange{Group: c.Group})
	add(api.PolicyChange{Min: c.Min})
	add(api.PolicyChange{Max: c.Max})
	add(api.PolicyChange{Reserve: c.Reserve})
	add(api.PolicyChange{LimitPackets: c.LimitPackets})
	add(api.PolicyChange{LimitBytes: c.LimitBytes})
	add(api.PolicyChange{Discipline: c.Discipline, Queues: c.Queues})
	add(api.PolicyChange{AQM: c.AQM})
	add(api.PolicyChange{DSCP: c.DSCP})
	if c.Ingress != nil {
		for _, p := range parts(*c.Ingress) {
			add(api.PolicyChange{Ingress: &p})
		}
	}
	return list
}

// setFound changes a workload's policy as soon as the agent has found it.
func (n *Node) setFound(ctx context.Context, workload string, c api.PolicyChange) error {
	for begun := time.Now(); ; {
		_, err := n.opts.Agent.Set(ctx, workload, c, false)
		var refused *api.Error
		if err == nil || !errors.As(err, &refused) || refused.Status != http.StatusNotFound || time.Since(begun) > found {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}
