// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/move"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
	"weir/internal/core/workload"
)

const (
	policyBefore = 5 * time.Second  // to ask the own agent
	found        = 10 * time.Second // for which a container that has just arrived may not be found yet
)

// settings returns what was set at run time for a container here, to go with it; nil if
// this node's agent knows nothing of it. It begins with a reset: what a container of
// that name was told on its next node in another life does not count.
func (n *Node) settings(ctx context.Context, container string) wire.ChangeJSON {
	if n.opts.Agent == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, policyBefore)
	defer cancel()
	w, err := n.opts.Agent.Workload(ctx, container)
	if err != nil {
		return nil
	}
	change := api.PolicyChange{Change: atRunTime(w)}
	change.Reset = true
	// What was taken here by --accept-gaps is taken so on the next node.
	change.AcceptGaps = slices.ContainsFunc(w.NotHeld, func(g api.PolicyGap) bool { return g.Accepted })
	text, err := json.Marshal(change)
	if err != nil {
		return nil
	}
	return text
}

// atRunTime returns the fields of a workload's policy that were set at run time, here or where it
// comes from.
func atRunTime(w api.Workload) policy.Change {
	return policy.ChangeTo(w.Policy.Policy, slices.DeleteFunc(policy.AllNames(), func(name string) bool {
		return w.Origin[name] != "set" && w.Origin[name] != "asked"
	})...)
}

// set puts into force what the manager orders for a container of this node.
func (n *Node) set(ctx context.Context, a wire.Apply) error {
	if n.opts.Agent == nil {
		return errNoAgent
	}
	c, err := readChange(a.Change)
	if err != nil || c.Empty() {
		return err
	}
	w, err := n.opts.Agent.Workload(ctx, a.Workload)
	if err != nil {
		return err
	}
	if w.Kind != workload.KindDocker {
		n.opts.standing.refused(move.WhySubject)
		return fmt.Errorf("%s is no container (it is of kind %s); the manager changes policies of containers only; set it on this node: weir set %s", w.Name, w.Kind, w.Name)
	}
	_, err = n.opts.Agent.Set(ctx, a.Workload, c, false)
	return err
}

var errNoAgent = errors.New("no agent steers this node's link")

// readChange reads a policy that has travelled. A field that this version does not know
// is refused rather than left out.
func readChange(text wire.ChangeJSON) (c api.PolicyChange, err error) {
	if len(text) == 0 {
		return c, nil
	}
	if err := cmp.Or(json.Unmarshal(text, &c), c.Readable()); err != nil {
		return c, fmt.Errorf("change cannot be read: %w", err)
	}
	return c, nil
}

// setArrived puts into force what came with a container that has moved here. Whatever
// this node takes and can hold holds; the error says what it does not. It is what the container
// asks for, and weir.yaml of this node stays above it.
func (n *Node) setArrived(ctx context.Context, id string, text wire.ChangeJSON) error {
	given, err := readChange(text)
	if err != nil {
		return err
	}
	c, notTaken := n.accepted(given)
	if c.Reset {
		if err := n.setFound(ctx, id, api.PolicyChange{Options: api.Options{Reset: true}}); err != nil {
			return errors.Join(err, notTaken)
		}
		c.Reset = false
	}
	if c.Empty() {
		return notTaken
	}
	c.Asked = true
	err = n.setFound(ctx, id, c)
	if err == nil || !mayHoldInParts(err) {
		return errors.Join(err, notTaken)
	}
	var refusals []string
	if notTaken != nil {
		refusals = append(refusals, notTaken.Error())
	}
	for _, part := range parts(c) {
		switch err := n.setFound(ctx, id, part); {
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
// room, a group that is not known here, an ingress that no link here steers.
func mayHoldInParts(err error) bool {
	return refusal.Is(err, refusal.Conflict, refusal.Invalid)
}

// parts returns a change's fields in changes of their own, the group before what may depend on
// it. Discipline and queues make sense together only.
func parts(c api.PolicyChange) (list []api.PolicyChange) {
	together := map[string]string{"queues": "discipline", "ingress.queues": "ingress.discipline"}
	names := c.Given()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	for _, name := range names {
		if with := together[name]; with != "" && c.Gives(with) {
			continue
		}
		fields := []string{name}
		for queues, discipline := range together {
			if discipline == name {
				fields = append(fields, queues)
			}
		}
		list = append(list, api.PolicyChange{Change: c.Only(fields...), Options: api.Options{AcceptGaps: c.AcceptGaps, Asked: c.Asked}})
	}
	return list
}

// order returns when a field is set among the others.
func order(name string) int {
	if i := slices.Index([]string{"weight", "group"}, name); i >= 0 {
		return i
	}
	return 2
}

// setFound changes a container's policy as soon as the agent has found it. It is named
// by its id: names are given to others.
func (n *Node) setFound(ctx context.Context, id string, c api.PolicyChange) error {
	for begun := time.Now(); ; {
		name, err := n.workloadOf(ctx, id)
		if err == nil {
			_, err = n.opts.Agent.Set(ctx, name, c, false)
		}
		if !refusal.Is(err, refusal.Unknown) || time.Since(begun) > found {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// workloadOf returns the workload that is a container.
func (n *Node) workloadOf(ctx context.Context, id string) (name string, err error) {
	list, err := n.opts.Agent.Workloads(ctx)
	if err != nil {
		return "", err
	}
	for _, w := range list {
		if w.Kind == workload.KindDocker && id != "" && w.ID == id {
			return w.Name, nil
		}
	}
	return "", &refusal.Error{Kind: refusal.Unknown, Field: "container", Value: id, Msg: "the agent has not found it"}
}

// applyArrived puts into force what came with a container that has moved here, and returns
// what of it cannot hold.
func (n *Node) applyArrived(ctx context.Context, id string, changes ...wire.ChangeJSON) (problems []string) {
	if n.opts.Agent == nil {
		return []string{errNoAgent.Error()}
	}
	for _, change := range changes {
		if err := n.setArrived(ctx, id, change); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// reportArrived tells the manager that a container has arrived.
func (n *Node) reportArrived(r *wire.Arrived) error {
	return n.say(n.reports, wire.Reports, r.Move+"/arrived", r, true)
}
