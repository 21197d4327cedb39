// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"weir/internal/api"
	"weir/internal/base/audit"
	"weir/internal/core/control"
	"weir/internal/core/refusal"
)

// Control implements api.Agent.
func (a *Agent) Control(ctx context.Context, name string) (c api.Control, err error) {
	err = a.ask(ctx, func(now moment) error {
		v, err := now.Resolve(name)
		if err == nil {
			c = a.regulator.view(v, now.links)
		}
		return err
	})
	return c, err
}

// SetControl implements api.Agent.
func (a *Agent) SetControl(ctx context.Context, name string, change api.ControlChange, dryRun bool) (c api.Control, err error) {
	if err := checkControl(change); err != nil {
		return c, err
	}
	err = a.ask(ctx, func(now moment) error {
		v, err := now.Resolve(name)
		if err != nil {
			return err
		}
		if c = a.regulator.view(v, now.links); len(c.Loops) == 0 {
			c = api.Control{}
			return noLoop(v.Name)
		}
		if dryRun {
			return nil
		}
		next, before, after := now.World.Tune(v.Key, change)
		if err := a.save(next); err != nil {
			c = api.Control{}
			return fmt.Errorf("change not made: %w", err)
		}
		a.decided.World = next
		audit.Note(ctx, v.Name, before, after)
		a.log.Info("controllers changed", "workload", v.Name, "frozen", after.Frozen, "gains", after.InForce().String(), "why", "asked by weir control")
		for _, l := range a.links {
			l.pacer.Follow(l.want)
		}
		c = a.regulator.view(v, a.links)
		return nil
	})
	return c, err
}

// checkControl refuses a change of controllers that says nothing, or gains that are not
// stable.
func checkControl(change api.ControlChange) error {
	if change.Empty() {
		return &refusal.Error{Kind: refusal.Invalid, Field: "body", Msg: "nothing to change", Remedy: "give freeze, gains or default_gains"}
	}
	if change.Gains == nil {
		return nil
	}
	g := control.Gains(*change.Gains)
	check := g.CheckStable
	if change.Force {
		check = g.Check
	}
	if err := check(); err != nil {
		return api.Mistake(err)
	}
	return nil
}
