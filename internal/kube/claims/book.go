// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"weir/internal/api"
	"weir/internal/core/refusal"
	"weir/internal/kube/claims/translate"
)

// claim is a claim that is prepared.
type claim struct {
	latest  *resourceapi.ResourceClaim
	asked   translate.Asked // what the agent holds, or held
	refused string          // why the agent refused the last change, "" if it did not
	change  pause           // before a refused change is asked for again
	write   pause           // before its status is written again, after a failure
	stop    context.CancelFunc
	// unseen is set from a change of what the agent was asked until the agent's allocations
	// were read again: its status is not written meanwhile.
	unseen bool
}

// pause spaces out attempts: after 5, 10, 20, 40 and at most 60 seconds.
type pause struct {
	until time.Time
	wait  time.Duration
}

func (p *pause) due(now time.Time) bool { return !now.Before(p.until) }

func (p *pause) failed(now time.Time) {
	p.wait = min(max(2*p.wait, 5*time.Second), time.Minute)
	p.until = now.Add(p.wait)
}

// prepare has the agent hold the mins of a claim. It may be called again.
func (d *driver) prepare(ctx context.Context, c *resourceapi.ResourceClaim) (translate.Asked, error) {
	asked, err := d.tryPrepare(ctx, c)
	if refusal.Is(err, refusal.NoRoom) && d.sweep(ctx) {
		asked, err = d.tryPrepare(ctx, c)
	}
	return asked, err
}

func (d *driver) tryPrepare(ctx context.Context, c *resourceapi.ResourceClaim) (translate.Asked, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	status, err := d.Agent.Status(ctx)
	if err != nil {
		return translate.Asked{}, err
	}
	d.answered(status)
	asked, err := translate.Ask(c, d.Node, d.links)
	if err != nil {
		return asked, err
	}
	if err := d.allocate(ctx, c.UID, asked); err != nil {
		return asked, err
	}
	d.track(c, asked)
	d.Log.Info("claim is prepared", "claim", asked.For, "pods", asked.Pods, "mins", asked.Mins)
	return asked, nil
}

// allocate asks the agent for what a claim asks, which may be nothing.
func (d *driver) allocate(ctx context.Context, uid types.UID, asked translate.Asked) error {
	if len(asked.Mins) == 0 {
		return d.release(ctx, uid)
	}
	_, err := d.Agent.Allocate(ctx, string(uid), asked.AllocationRequest, false)
	return err
}

// release gives back what the agent holds for a claim, if it does.
func (d *driver) release(ctx context.Context, uid types.UID) error {
	if _, err := d.Agent.Release(ctx, string(uid), false); err != nil && !refusal.Is(err, refusal.Unknown) {
		return err
	}
	return nil
}

// track notes that a claim is prepared, and watches it if other pods may come to use it.
func (d *driver) track(c *resourceapi.ResourceClaim, asked translate.Asked) {
	known := d.claims[c.UID]
	if known == nil {
		known = &claim{}
		d.claims[c.UID] = known
	}
	known.latest, known.asked, known.refused, known.unseen = c, asked, "", true
	if known.stop == nil && translate.Shareable(c) {
		known.stop = d.watch(c)
	}
}

// unprepare has the agent give the mins of a claim back. It may be called again, and of a claim
// that was never prepared.
func (d *driver) unprepare(ctx context.Context, uid types.UID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.release(ctx, uid); err != nil {
		return err
	}
	d.forget(uid)
	return nil
}

// forget ends the watch of a claim.
func (d *driver) forget(uid types.UID) {
	if known := d.claims[uid]; known != nil && known.stop != nil {
		known.stop()
	}
	delete(d.claims, uid)
}

// reserved takes a claim whose pods may be others than before. It stays prepared for those that it
// was prepared for where the agent refuses the change.
func (d *driver) reserved(ctx context.Context, c *resourceapi.ResourceClaim) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.claims[c.UID]
	if known == nil || c.Status.Allocation == nil {
		return // not prepared, or about to be unprepared
	}
	known.latest = c
	d.follow(ctx, known)
}

// follow has the agent hold the mins of a claim for its present pods.
func (d *driver) follow(ctx context.Context, known *claim) {
	asked, err := translate.Ask(known.latest, d.Node, d.links)
	if err == nil && slices.Equal(asked.Pods, known.asked.Pods) {
		known.refused = ""
		return
	}
	if err == nil {
		err = d.allocate(ctx, known.latest.UID, asked)
	}
	if err != nil {
		known.refused = "the min is held for other pods than the present ones: " + err.Error()
		known.change.failed(time.Now())
		d.Log.Warn("claim is shared by pods that cannot share it", "claim", asked.For, "err", err)
		return
	}
	known.asked, known.refused, known.change, known.unseen = asked, "", pause{}, true
	d.Log.Info("claim has other pods", "claim", asked.For, "pods", asked.Pods)
}

// reconcile compares the claims that are prepared with what the agent holds: it asks again for
// what the agent has lost, and for changes that it refused. It returns the allocations of claims
// that this driver has not prepared.
func (d *driver) reconcile(ctx context.Context) (unknown []api.Allocation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, err := d.Agent.Allocations(ctx)
	if err != nil {
		return nil
	}
	d.held = map[types.UID]*api.Allocation{}
	for _, a := range list {
		d.held[types.UID(a.Name)] = &a
		if d.claims[types.UID(a.Name)] == nil {
			unknown = append(unknown, a)
		}
	}
	for uid, known := range d.claims {
		known.unseen = false
		if known.refused != "" && known.change.due(time.Now()) {
			d.follow(ctx, known)
		}
		if d.held[uid] != nil || len(known.asked.Mins) == 0 || !known.change.due(time.Now()) {
			continue
		}
		if err := d.allocate(ctx, uid, known.asked); err != nil {
			known.refused = err.Error()
			known.change.failed(time.Now())
			d.Log.Warn("the agent has lost the min of a claim and refuses it now", "claim", known.asked.For, "err", err)
			continue
		}
		known.refused, known.change, known.unseen = "", pause{}, true
		d.Log.Warn("the agent had lost the min of a claim, and holds it again", "claim", known.asked.For)
	}
	return unknown
}

// adopt takes an allocation that an earlier driver made, whose claim was read since; nil = the
// claim is gone, and its min is given back. It reports whether that was so.
func (d *driver) adopt(ctx context.Context, a api.Allocation, c *resourceapi.ResourceClaim) (gone bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	uid := types.UID(a.Name)
	list, err := d.Agent.Allocations(ctx)
	if err != nil || d.claims[uid] != nil && c != nil || !slices.ContainsFunc(list, func(b api.Allocation) bool { return b.Name == a.Name }) {
		return false // prepared or unprepared meanwhile
	}
	if c == nil {
		if err := d.release(ctx, uid); err != nil {
			return false
		}
		d.Log.Warn("claim is gone and was not unprepared; its min is given back", "claim", a.For)
		d.forget(uid)
		return true
	}
	asked, err := translate.Ask(c, d.Node, d.links)
	if err != nil { // its link may have gone; what the agent has, it keeps
		d.Log.Warn("claim that is prepared cannot be understood", "claim", a.For, "err", err)
	}
	d.track(c, asked)
	if known := d.claims[uid]; err != nil {
		known.refused = err.Error()
	} else if !slices.Equal(asked.Pods, a.Pods) { // they changed while no driver ran
		known.asked.Pods = a.Pods
		d.follow(ctx, known)
	}
	return false
}
