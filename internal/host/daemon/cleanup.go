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

	"weir/internal/base/audit"
	"weir/internal/base/safepath"
	"weir/internal/config"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/backends"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/doctor"
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
	if c.MarkAuto {
		c.MarkMask = uint32(doctor.KeptMask(c.StateDir))
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
	opts := dataplane.Options{MarkMask: c.MarkMask, Cilium: c.Cilium, StateDir: c.StateDir}
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
	failed = append(failed, device.RestoreGSO(opts, nil, log))
	return errors.Join(failed...)
}

// tidy gives back the devices that are not those of the links, and removes the IFB devices that
// they do not have: what an agent left that ran with another configuration, or with other names of
// the devices.
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
	opts := dataplane.Options{MarkMask: c.MarkMask, Cilium: c.Cilium, StateDir: c.StateDir}
	var failed error
	for _, i := range all {
		if !slices.ContainsFunc(links, func(l config.Link) bool { return ifbOf(l) == i }) {
			log.Info("removing what is left of a link that there is no longer", "link", i.String())
			failed = errors.Join(failed, backends.CleanupIFB(ctx, i, opts, log))
		}
	}
	for _, l := range links {
		opts.Awaited = append(opts.Awaited, l.Device)
	}
	strays, err := strays(conn, links)
	for _, dev := range strays {
		log.Info("giving back a device that is no link any longer", "device", dev.Name)
		failed = errors.Join(failed, backends.Cleanup(ctx, dev.Name, opts, log))
	}
	return errors.Join(failed, err)
}

// strays returns the devices that have a qdisc of Weir's, and are neither those of the links nor
// IFB devices.
func strays(conn *device.Conn, links []config.Link) (list []device.Device, err error) {
	named := map[int]bool{}
	for _, l := range links {
		switch dev, err := conn.Lookup(l.Device); {
		case errors.Is(err, dataplane.ErrNoDevice):
		case err != nil:
			return nil, err
		default:
			named[dev.Index] = true
		}
	}
	steered, err := conn.Steered()
	if err != nil {
		return nil, err
	}
	for _, index := range steered {
		dev, err := conn.LookupIndex(index)
		if errors.Is(err, dataplane.ErrNoDevice) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !named[index] && !device.IsIFBName(dev.Name) {
			list = append(list, dev)
		}
	}
	return list, nil
}
