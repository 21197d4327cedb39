// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"weir/internal/audit"
	"weir/internal/config"
	"weir/internal/dataplane"
	"weir/internal/dataplane/backends"
	"weir/internal/dataplane/device"
	"weir/internal/safepath"
)

// Cleanup gives devices back as Weir found them, an IFB device by removing it; with a
// link goes its IFB. No agent should run. Of the configuration it needs where the former
// qdiscs are remembered and which bits of the mark are Weir's; a mistake in it is logged, and
// what can be read of it counts. In the place of a file that is refused, since others than root
// may change it, the defaults count. The audit log records the user who asked for it.
func Cleanup(ctx context.Context, path string, devices []string, flags Overrides, who audit.Who, log *slog.Logger) error {
	c, err := new(former).load(path)
	var mistake *config.Error
	var refused *safepath.Error
	if errors.As(err, &refused) {
		c = config.Default()
		log.Warn("the configuration is refused; cleaning up by the defaults", "err", err, "state_dir", cmp.Or(flags.StateDir, c.StateDir))
	} else if errors.As(err, &mistake) {
		first, _, _ := strings.Cut(err.Error(), "\n")
		log.Warn("the configuration is wrong; cleaning up by what can be read of it",
			"err", first, "state_dir", cmp.Or(flags.StateDir, c.StateDir))
	} else if err != nil {
		return err
	}
	if c, err = flags.over(c); err != nil {
		return err
	}
	records := audit.New(config.AuditFile(c.StateDir), log)
	defer records.Close()
	return records.Do(ctx, audit.Entry{Who: who, Action: "cleanup", Object: strings.Join(devices, ",")},
		func(ctx context.Context) error { return cleanup(ctx, c, devices, log) })
}

func cleanup(ctx context.Context, c config.Config, devices []string, log *slog.Logger) error {
	conn, err := device.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	opts := dataplane.Options{MarkMask: c.MarkMask, StateDir: c.StateDir}
	var failed []error
	done := func(name string, err error) {
		if err != nil {
			failed = append(failed, fmt.Errorf("cleanup of %s: %w", name, err))
		}
	}
	all, err := conn.IFBs()
	done("IFB devices", err)
	for _, i := range all { // before the links that they stand for
		if slices.Contains(devices, i.Link) || slices.Contains(devices, i.Name()) {
			done(i.String(), backends.CleanupIFB(ctx, i, opts, log))
		}
	}
	for _, name := range devices {
		if _, err := conn.Lookup(name); errors.Is(err, dataplane.ErrNoDevice) && device.IsIFBName(name) {
			continue // just removed
		}
		done(name, backends.Cleanup(ctx, name, opts, log))
	}
	failed = append(failed, device.RestoreGSO(opts, log))
	return errors.Join(failed...)
}

// tidy removes the IFB devices of zones, and of an ingress, that the links had when an agent ran
// before, and do not have any longer.
func tidy(ctx context.Context, c config.Config, links []config.Link, log *slog.Logger) error {
	conn, err := device.Open()
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := conn.IFBs()
	if err != nil {
		return err
	}
	opts := dataplane.Options{MarkMask: c.MarkMask, StateDir: c.StateDir}
	var failed error
	for _, i := range all {
		on := func(l config.Link) bool { return l.Device == i.Link }
		has := func(l config.Link) bool { return ifbOf(l) == i }
		if slices.ContainsFunc(links, on) && !slices.ContainsFunc(links, has) {
			log.Info("removing what is left of a link that the configuration no longer has", "link", i.String())
			failed = errors.Join(failed, backends.CleanupIFB(ctx, i, opts, log))
		}
	}
	return failed
}
