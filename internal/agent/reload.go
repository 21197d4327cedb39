// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/agent/record"
	"weir/internal/api"
	"weir/internal/config"
)

// watchConfig calls reload, with the reason, when the file changes and on SIGHUP, until ctx
// ends.
func watchConfig(ctx context.Context, log *slog.Logger, path string, reload func(why string)) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		if err := config.Watch(ctx, path, func() { reload("file changed") }); err != nil {
			log.Warn("changes of the configuration are noticed on SIGHUP only", "err", err)
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			reload("SIGHUP")
		}
	}
}

// reloads counts the attempts to read the configuration again.
type reloads struct {
	api.Reloads
	wrong string // the mistake in the file on the disk
}

func (r *reloads) succeeded(now time.Time) {
	r.OK++
	r.LastOK, r.wrong = now.UTC(), ""
}

// failed notes a bad file, and reports whether that is news.
func (r *reloads) failed(err error) bool {
	r.Failed++
	news := r.wrong != err.Error()
	r.wrong = err.Error()
	return news
}

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
			a.reloads.succeeded(time.Now())
		} else if a.reloads.failed(err) {
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
	var devices []string
	if a.opts.Devices != nil {
		var err error
		if devices, err = a.opts.Devices(); err != nil {
			a.log.Warn("whether the links of the configuration exist cannot be told", "err", err)
		}
	}
	if err := w.CheckConfig(next, devices); err != nil {
		return err
	}
	if err := a.finder.reattach(w, next.Attach); err != nil {
		return err
	}
	if late := decide.NeedRestart(before, next); len(late) > 0 {
		a.log.Warn("some settings take effect when the agent is started again", "settings", strings.Join(late, ", "))
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
