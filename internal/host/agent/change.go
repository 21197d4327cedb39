// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/config"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/decide/difference"
	"weir/internal/host/agent/usage"
	"weir/internal/host/discover"
)

// patience is how long Attach waits for the source to find the devices.
const patience = time.Second

// Set implements api.Agent.
func (a *Agent) Set(ctx context.Context, name string, change api.PolicyChange, dryRun bool) (api.ChangeResult, error) {
	return a.change(ctx, dryRun, func(d decide.Decision) (decide.ChangeRequest, error) { return d.Set(name, change) })
}

// SetGroup implements api.Agent.
func (a *Agent) SetGroup(ctx context.Context, name string, change api.GroupChange, dryRun bool) (api.ChangeResult, error) {
	return a.change(ctx, dryRun, func(d decide.Decision) (decide.ChangeRequest, error) { return d.SetGroup(name, change) })
}

// DeleteGroup implements api.Agent.
func (a *Agent) DeleteGroup(ctx context.Context, name string, dryRun bool) (api.ChangeResult, error) {
	return a.change(ctx, dryRun, func(d decide.Decision) (decide.ChangeRequest, error) { return d.DeleteGroup(name) })
}

// change makes what a user asks for in the agent's goroutine. ask says what that is, given
// the state in force.
func (a *Agent) change(ctx context.Context, dryRun bool, ask func(decide.Decision) (decide.ChangeRequest, error)) (result api.ChangeResult, err error) {
	down := a.do(ctx, func() {
		var r decide.ChangeRequest
		if r, err = ask(a.decided); err == nil {
			result, err = a.grant(ctx, r, dryRun)
		}
	})
	return result, cmp.Or(down, err)
}

// grant puts a request into force, or with a dry run says what it would change.
func (a *Agent) grant(ctx context.Context, r decide.ChangeRequest, dryRun bool) (api.ChangeResult, error) {
	next, err := a.decided.Try(r)
	if err != nil {
		return api.ChangeResult{}, err
	}
	result := api.ChangeResult{DryRun: dryRun, Stored: next.Stored, Dropped: next.Dropped, NotHeld: next.NotHeld}
	d := difference.Of(a.decided, next.Decision, r.Key)
	later := usage.Later(d.Name, d.Was, d.Is, r.Why)
	why := decide.Reasons{General: "follows from the change of " + r.Key, ByKey: map[string]string{r.Key: r.Why}}
	if len(a.links) == 0 && len(later) == 0 {
		later = usage.Unplanned(d.Name, d.Was, d.Is, r.Why)
	}
	if dryRun {
		result.Changes = slices.Concat(decide.Describe(a.links.changes(next.Decision, why)), later)
		for _, l := range a.links {
			result.Effects = append(result.Effects, usage.Effects(l.want, l.pacer.Paced(next.Decision.Plans[l.config.Name()]), l.now.Used)...)
		}
		moment{next.Decision, a.links}.show(&result, r.Key)
		return result, nil
	}
	if err := a.save(next.Decision.World); err != nil {
		return api.ChangeResult{}, fmt.Errorf("change not made: %w", err)
	}
	before, waiting := a.decided, a.links.unopened().changes(next.Decision, why)
	changes, err := a.commit(ctx, next.Decision, why)
	if err != nil {
		// The user is told that it failed, so it must not come true later.
		// What fails in that is the link's, which says it and is set again.
		_, _ = a.commit(ctx, before, decide.Reasons{General: "the change could not be made"})
		return api.ChangeResult{}, fmt.Errorf("change not made: %w", err)
	}
	result.Changes = slices.Concat(decide.Describe(changes), decide.Describe(waiting), later)
	moment{next.Decision, a.links}.show(&result, r.Key)
	return result, nil
}

// Attach implements api.Agent.
func (a *Agent) Attach(ctx context.Context, req api.AttachRequest, dryRun bool) (api.ChangeResult, error) {
	var result api.ChangeResult
	var err error
	var wait *pending
	if down := a.do(ctx, func() { result, wait, err = a.attach(ctx, req, dryRun) }); down != nil {
		return api.ChangeResult{}, down
	}
	if err != nil || wait == nil {
		return result, err
	}
	select { // so that the answer shows the devices
	case <-wait.reported:
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return result, a.ask(ctx, func(now moment) error {
		now.show(&result, wait.workload.Key)
		return nil
	})
}

func (a *Agent) attach(ctx context.Context, req api.AttachRequest, dryRun bool) (api.ChangeResult, *pending, error) {
	at := config.Attachment{Name: req.Name, Netns: req.Netns, Device: req.Device, Unit: req.Unit, Cgroup: req.Cgroup, Pod: req.Pod, Weight: req.Weight}
	if err := a.decided.CheckAttachment(at); err != nil {
		return api.ChangeResult{}, nil, err
	}
	devices, cgroups := a.finder.attacher.Look(at)
	r, err := a.decided.Attach(at, req.Policy, devices, cgroups)
	if err != nil {
		return api.ChangeResult{}, nil, err
	}
	if a.decided.Again(at) {
		return a.attachAgain(ctx, at, devices, r, dryRun)
	}
	p, err := a.finder.attach(at, devices) // in a dry run too
	if err != nil {
		return api.ChangeResult{}, nil, err
	}
	result, err := a.grant(ctx, r, dryRun)
	if err != nil || dryRun {
		_, failed := a.finder.detach(at)
		return result, nil, errors.Join(err, failed)
	}
	if len(p.workload.Devices) > 0 { // in force already
		return result, nil, nil
	}
	return result, p, nil
}

// attachAgain is attach of a pod that is attached already. Its source is told only of another
// place.
func (a *Agent) attachAgain(ctx context.Context, at config.Attachment, devices []discover.Device, r decide.ChangeRequest, dryRun bool) (api.ChangeResult, *pending, error) {
	moved := !slices.Contains(a.decided.World.Attached, at)
	result, err := a.grant(ctx, r, dryRun)
	if err != nil || dryRun || !moved {
		return result, nil, err
	}
	p, err := a.finder.attach(at, devices)
	return result, p, err
}

// Detach implements api.Agent.
func (a *Agent) Detach(ctx context.Context, name string, dryRun bool) (result api.ChangeResult, err error) {
	down := a.do(ctx, func() {
		r, at, unknown := a.decided.Detach(name)
		if err = unknown; err != nil {
			return
		}
		if result, err = a.grant(ctx, r, dryRun); err != nil || dryRun {
			return
		}
		gone, lasts := decide.WorkloadOf(at), false
		if lasts, err = a.finder.detach(at); lasts || gone.Kind != workload.KindPod {
			return
		}
		next := a.decided.World.Clone() // a pod that no source has seen yet
		next.Found = a.finder.found()
		next.ForgetPods(slices.DeleteFunc([]discover.Workload{gone}, func(w discover.Workload) bool { return a.finder.away.Has(w.Key) }))
		a.commit(ctx, decide.Decide(next), decide.Reasons{General: r.Why})
	})
	if down != nil {
		return api.ChangeResult{}, down
	}
	return result, err
}
