// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/cluster/node/membership"
	"weir/internal/core/policy"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
	"weir/internal/core/workload"
)

// placeAgain is how long this node does not ask the manager again about the same min
// of the same container.
const placeAgain = 2 * time.Minute

// WithManager returns an agent with a manager behind it: a min or a reservation that does
// not fit here is not refused before the manager was asked for a place where it does.
func (n *Node) WithManager(a api.Agent) api.Agent { return &withManager{a, n} }

type withManager struct {
	api.Agent
	node *Node
}

// Set implements api.Agent.
func (w *withManager) Set(ctx context.Context, name string, change api.PolicyChange, dryRun bool) (api.ChangeResult, error) {
	result, err := w.Agent.Set(ctx, name, change, dryRun)
	if !wantsPlace(err, change, dryRun) {
		return result, err
	}
	refused := refusal.Of(err)
	found, unknown := w.Agent.Workload(ctx, name)
	if unknown != nil || found.Kind != workload.KindDocker {
		return result, err // nothing else can be moved
	}
	r := wire.PlaceRequest{ID: placeID(w.node.opts.Name, found.Name), Node: w.node.opts.Name, Container: found.Name, Refusal: wire.Clip(refused.Msg, wire.MaxText)}
	sought, bps := w.guaranteed(ctx, change)
	r.MinBps = bps
	if text, failed := json.Marshal(sought); failed == nil {
		r.Change = text
	}
	answer, failed := membership.Ask[wire.PlaceAnswer](ctx, w.node.members.Manager(), http.MethodPost, "/v1/places", r)
	if failed != nil {
		return result, refused.With("the manager was asked for another node, but: " + failed.Error())
	}
	if answer.To == "" {
		return result, refused.With("the manager knows no node with room: " + strings.Join(answer.Lacks, "; "))
	}
	return api.ChangeResult{Changes: []api.Edit{{What: moving(found.Name, w.node.opts.Name, answer), Why: "refused here: " + refused.Msg}}}, nil
}

// wantsPlace reports whether a change of a guarantee was refused for want of room, which
// another node may have.
func wantsPlace(err error, change api.PolicyChange, dryRun bool) bool {
	return refusal.Is(err, refusal.NoRoom) && !dryRun && (change.Gives("min") || change.Gives("reserve"))
}

// moving says what will happen.
func moving(name, here string, a wire.PlaceAnswer) string {
	text := fmt.Sprintf("asked the manager: moving %s to %s", name, a.To)
	if a.To == here {
		text = fmt.Sprintf("asked the manager: %s stays", name)
	}
	if a.Why != "" {
		text += ", " + a.Why
	}
	if a.Move != "" {
		text += "; weir moves " + a.Move + " shows how far it is"
	}
	return text
}

// guaranteed returns the rate to guarantee, in bit/s, and the change with parts of a
// link as rates: parts of this node's first link, since they would be another amount on
// another node.
func (w *withManager) guaranteed(ctx context.Context, change api.PolicyChange) (api.PolicyChange, uint64) {
	var capacity policy.Rate
	if st, err := w.Agent.Status(ctx); err == nil && len(st.Links) > 0 {
		capacity = policy.Rate(st.Links[0].CapacityBps)
	}
	var most policy.Rate
	asked := change.To()
	for field, amount := range map[string]policy.Amount{"min": asked.Min, "reserve": asked.Reserve} {
		if amount.None() {
			continue
		}
		rate := amount.Of(capacity)
		most = max(most, rate)
		change.Set(field, func(p *policy.Policy) { p.Min, p.Reserve = policy.Amount{Rate: rate}, policy.Amount{Rate: rate} })
	}
	return change, uint64(most)
}

func placeID(node, container string) string {
	return fmt.Sprintf("p-%s-%s-%d", node, container, time.Now().UnixNano())
}

// refusedHere asks the manager for a place for containers whose min, by a label or the
// configuration, did not fit here. It travels with the container.
func (n *Node) refusedHere(p wire.Profile) {
	now := time.Now()
	for _, c := range p.Containers {
		if c.Policy.RefusedMinBps == 0 {
			continue
		}
		key := fmt.Sprintf("%s %d", c.ID, c.Policy.RefusedMinBps)
		n.mu.Lock()
		lately := now.Sub(n.asked[key]) < placeAgain
		if !lately {
			n.asked[key] = now
		}
		n.mu.Unlock()
		if lately {
			continue
		}
		r := wire.PlaceRequest{ID: placeID(n.opts.Name, c.Name), Node: n.opts.Name, Container: c.Name, MinBps: c.Policy.RefusedMinBps,
			Change: wire.ChangeJSON("{}"), Refusal: "its label or the configuration asks for it"}
		if err := n.say(n.reports, wire.Reports, r.ID, &r, false); err != nil {
			n.log.Warn("the manager cannot be asked for a place", "container", c.Name, "err", err)
		}
	}
}
