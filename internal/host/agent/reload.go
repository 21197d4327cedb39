// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/decide/shadow"
	"weir/internal/host/agent/record"
	"weir/internal/host/agent/reload"
)

// Reload reads the configuration again and puts it into force. If it is bad, the
// one before stays, and Status names the mistake.
func (a *Agent) Reload(ctx context.Context, why string) error {
	if a.opts.Load == nil {
		return errors.New("this agent has no configuration file")
	}
	next, err := a.opts.Load()
	if err == nil {
		err = next.Linkless()
	}
	down := a.tell(ctx, func() {
		if err == nil {
			err = a.adoptConfig(ctx, next, why)
		}
		if err == nil {
			a.file.Succeeded(time.Now(), decide.NeedRestart(a.opts.Config, next))
			reload.Accept(a.opts.Accepted, a.log)
		} else if a.file.Failed(err) {
			a.record.BadConfig(a.decided.World.Config.Path, err)
		}
	})
	return errors.Join(down, err)
}

// adoptConfig puts a configuration into force.
func (a *Agent) adoptConfig(ctx context.Context, next config.Config, why string) error {
	w := a.decided.World
	before := w.Config
	if reflect.DeepEqual(before, next) {
		return nil
	}
	devices, err := a.devices.Names()
	if err != nil {
		a.log.Warn("whether the links of the configuration exist cannot be told", "err", err)
	}
	if err := w.CheckConfig(next, devices); err != nil {
		return err
	}
	if err := a.finder.reattach(w, next.Attach); err != nil {
		return err
	}
	late := decide.NeedRestart(a.opts.Config, next)
	if len(late) > 0 && !slices.Equal(late, a.file.Late) {
		a.log.Warn("some settings take effect when the agent is started again", "settings", strings.Join(late, ", "))
	}
	if hidden := shadow.Fields(a.decided, next); len(hidden) > 0 {
		a.log.Warn("the file changes what was set at run time, which goes before it", "fields", strings.Join(hidden, "; "), "remedy", "weir get --set lists it, weir set NAME --reset drops it")
	}
	next.Profile = before.Profile // the kernel's tables keep their sizes, and so do class numbers
	a.teller.Follow(next.Tell)
	w = w.Clone()
	w.Config = next
	w.Found = a.finder.found()
	a.links = a.links.relink(ctx, w.Links(), a.newLink, a.record)
	a.log.Info("configuration reloaded", "file", next.Path, "why", why)
	if !slices.Equal(before.Warnings, next.Warnings) {
		a.record.Overlaps(next)
	}
	a.record.Reload(next.Path, why, nil)
	a.commit(ctx, decide.Decide(w), decide.Reasons{General: record.WhyConfig})
	return nil
}
