// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/closest"
	"weir/internal/config"
)

// watchConfig reads the configuration again when its file changes and on SIGHUP.
func (a *Agent) watchConfig(ctx context.Context) {
	path := a.opts.Config.Path
	if path == "" || a.opts.Load == nil {
		return
	}
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	a.running.Go(func() {
		err := config.Watch(ctx, path, func() { _ = a.Reload(ctx, "file changed") })
		if err != nil {
			a.log.Warn("changes of the configuration are noticed on SIGHUP only", "err", err)
		}
	})
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			_ = a.Reload(ctx, "SIGHUP")
		}
	}
}

// Reload reads the configuration again and puts it into force. If it is bad, the
// one before stays, and Status says what is wrong.
func (a *Agent) Reload(ctx context.Context, why string) error {
	if a.opts.Load == nil {
		return errors.New("this agent has no configuration file")
	}
	next, err := a.opts.Load()
	if err == nil && len(next.Links) == 0 && a.opts.Ports == nil {
		err = fmt.Errorf("%s: links: no link; an agent needs at least one", next.Path)
	}
	down := a.tell(ctx, func() {
		if err == nil {
			err = a.adoptConfig(ctx, next, why)
		}
		if err != nil {
			a.reloads.Failed++
			a.complainOfConfig(err)
			return
		}
		a.reloads.OK++
		a.reloads.LastOK = time.Now().UTC()
		a.configError = ""
	})
	return errors.Join(down, err)
}

// complainOfConfig notes a bad file, in one line.
func (a *Agent) complainOfConfig(err error) {
	if a.configError == err.Error() {
		return
	}
	a.configError = err.Error()
	a.recordReload(a.decided.World.Config.Path, "", err)
	first, rest, _ := strings.Cut(a.configError, "\n")
	log := a.log
	if rest != "" {
		log = log.With("more_problems", 1+strings.Count(rest, "\n"))
	}
	log.Error("configuration not reloaded, the one before stays in force", "err", first)
}

// adopt puts a configuration into force.
func (a *Agent) adoptConfig(ctx context.Context, next config.Config, why string) error {
	before := a.decided.World.Config
	if reflect.DeepEqual(before, next) {
		return nil
	}
	if err := a.mistyped(next); err != nil {
		return err
	}
	if err := a.decided.World.CheckGaps(next); err != nil {
		return err
	}
	if err := a.reattach(before.Attach, next.Attach); err != nil {
		return err
	}
	if late := needRestart(before, next); len(late) > 0 {
		a.log.Warn("some settings take effect when the agent is started again", "settings", strings.Join(late, ", "))
	}
	world := a.decided.World.Clone()
	world.Config = next
	world.Found = a.merged()
	a.relink(ctx, world.Links())
	a.log.Info("configuration reloaded", "file", next.Path, "why", why)
	if !slices.Equal(before.Warnings, next.Warnings) {
		a.warnOfConfig(next)
	}
	a.recordReload(next.Path, why, nil)
	a.commit(ctx, decide.Decide(world), decide.Reasons{General: whyConfig})
	return nil
}

// mistyped refuses a configuration that gives a link back and names in its place a
// device that does not exist: most likely it is written wrong, and the link would be
// steered no longer. A device that is to come may be added beside the links.
func (a *Agent) mistyped(next config.Config) error {
	if a.opts.Devices == nil {
		return nil
	}
	has := func(links []config.Link, device string) bool {
		return slices.ContainsFunc(links, func(l config.Link) bool { return l.Device == device })
	}
	devices, err := a.opts.Devices()
	if err != nil {
		a.log.Warn("whether the links of the configuration exist cannot be told", "err", err)
		return nil
	}
	gone := slices.DeleteFunc(slices.Clone(a.decided.World.Config.Links), func(l config.Link) bool {
		return has(next.Links, l.Device) || !slices.Contains(devices, l.Device)
	})
	for i, l := range next.Links {
		if len(gone) == 0 || has(a.decided.World.Config.Links, l.Device) || slices.Contains(devices, l.Device) {
			continue
		}
		remedy := "ip link shows those that there are"
		if near := closest.Words(l.Device, devices, 1); len(near) > 0 {
			remedy = fmt.Sprintf("did you mean %s?", near[0])
		}
		return fmt.Errorf("%s: links[%d].device: %q: no such network device, and link %s would be given back; %s",
			next.Path, i, l.Device, gone[0].Device, remedy)
	}
	return nil
}

// needRestart names the settings that differ and are read at the start only.
func needRestart(before, next config.Config) []string {
	var late []string
	for _, s := range []struct {
		name   string
		differ bool
	}{
		{"backend", before.Backend != next.Backend},
		{"cluster", !reflect.DeepEqual(before.Cluster, next.Cluster)},
		{"docker", before.Docker != next.Docker},
		{"group", before.Group != next.Group},
		{"mark_mask", before.MarkMask != next.MarkMask},
		{"metrics", before.Metrics != next.Metrics},
		{"sdn", before.SDN != next.SDN},
		{"socket", before.Socket != next.Socket},
		{"state_dir", before.StateDir != next.StateDir},
		{"view_group", before.ViewGroup != next.ViewGroup},
	} {
		if s.differ {
			late = append(late, s.name)
		}
	}
	return late
}

// reattach makes the attachments of the configuration those of next. If one
// cannot be made, all is as before.
func (a *Agent) reattach(before, next []config.Attachment) error {
	var undo []func()
	gone := func(at config.Attachment) { _ = a.attacher().Detach(at) }
	for _, at := range before {
		if !slices.Contains(next, at) {
			gone(at)
			undo = append(undo, func() { _ = a.attacher().Attach(at, true) })
		}
	}
	for _, at := range next {
		if slices.Contains(before, at) {
			continue
		}
		err := a.attacher().Attach(at, true)
		if err == nil && a.decided.World.NameTaken(at) {
			gone(at)
			err = errors.New("the name is taken by another workload; choose another")
		}
		if err != nil {
			slices.Reverse(undo)
			for _, f := range undo {
				f()
			}
			return fmt.Errorf("%s: attach %s: %w", a.decided.World.Config.Path, at, err)
		}
		undo = append(undo, func() { gone(at) })
	}
	return nil
}

// relink makes the links those of next. One that is no longer named is given
// back as it was found.
func (a *Agent) relink(ctx context.Context, next []config.Link) {
	var links []*link
	for _, c := range next {
		l := a.linkOf(c.Name())
		if l == nil {
			l = a.newLink(c)
		}
		if c.Force && !l.config.Force && l.backend == nil {
			l.again.succeeded() // what was refused may succeed now
		}
		if l.config.IngressLocal != c.IngressLocal {
			l.close() // its backend was opened with that
		}
		l.config = c
		links = append(links, l)
	}
	for _, l := range a.links {
		if !slices.Contains(links, l) {
			l.giveBack(ctx)
			a.recordLink("give-back", l, "neither the configuration nor a switch names it any longer")
		}
	}
	a.links = links
}
