// SPDX-License-Identifier: Apache-2.0

package ifb

import (
	"context"
	"errors"

	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
	"weir/internal/host/dataplane/mark"
)

// havePairs reports whether the kernel has what a pair takes.
var havePairs = mark.HaveTCX

// ensure makes the IFB, or the pair. One that an earlier version, or an agent on another kernel,
// has made of the other kind goes, with what waits there.
func (b *Backend) ensure(link device.Device) (device.Device, error) {
	pair := havePairs()
	dev, err := b.conn.EnsureIFB(b.end.IFB, link, pair)
	if err != nil {
		return dev, err
	}
	back, err := b.conn.BackOf(b.end.IFB)
	if err != nil || (back != 0) == pair {
		return dev, err
	}
	b.log.Info("replacing what stands for the ingress", "device", dev.Name, "pair", pair)
	if err := errors.Join(b.release(dev), b.conn.DeleteIFB(b.end.IFB)); err != nil {
		return dev, err
	}
	return b.conn.EnsureIFB(b.end.IFB, link, pair)
}

// Release has the packets pass as they did before Weir came, and leaves the IFB.
func (b *Backend) Release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	dev, err := b.conn.Lookup(b.end.Name())
	if err != nil {
		return err
	}
	return b.release(dev)
}

func (b *Backend) release(dev device.Device) error {
	back, err := b.conn.BackOf(b.end.IFB)
	if err != nil {
		return err
	}
	if b.zoneEgress() {
		link, err := b.conn.Lookup(b.end.Link)
		if errors.Is(err, dataplane.ErrNoDevice) {
			return nil // and its filters with it
		}
		return errors.Join(err, b.zones.Detach(mark.Zone{Link: link, IFB: dev.Index, Back: back}))
	}
	opts := b.opts
	opts.Inward = &dataplane.Inward{IFB: dev.Index, Back: back}
	marker, err := mark.New(opts, b.log)
	if err != nil {
		return err
	}
	return errors.Join(marker.Release(), marker.Close())
}

// Cleanup has the packets pass as they did before Weir came, and removes the IFB.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	dev, err := b.conn.Lookup(b.end.Name())
	if errors.Is(err, dataplane.ErrNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	// Before the device goes: packets that are redirected to a missing device are lost.
	if err := b.release(dev); err != nil {
		return err
	}
	if err := b.use(dev, b.inward.Sources); err != nil {
		return err
	}
	return errors.Join(b.inner.Cleanup(ctx), b.conn.DeleteIFB(b.end.IFB))
}
