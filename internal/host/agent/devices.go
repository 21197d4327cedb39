// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"

	"weir/internal/config"
	"weir/internal/host/dataplane"
)

// Devices are what an agent needs of the network devices that are links.
type Devices struct {
	// Open gets the backend of a link. It is called again, with pauses, while it
	// fails with dataplane.ErrNoDevice or another error.
	Open func(config.Link) (dataplane.Backend, error)
	// Names returns the names and alternative names of all devices; with nil the names of links
	// are not checked against them.
	Names func() ([]string, error)
	// Index returns the index of the device that has a name or alternative name, 0 if none has;
	// nil = the agent sees that another device has a link's name when it sets the link.
	Index func(device string) int
	// Changed gets a value when devices have come, gone or been renamed; nil = the agent sees
	// it when it sets a link.
	Changed <-chan struct{}
	// Tidy removes what was left of links that are no longer among these, or whose name another
	// device has; nil = nothing is.
	Tidy func(context.Context, []config.Link) error
}

// devices are the Devices with what may be nil filled in.
type devices struct {
	Devices
	log *slog.Logger
}

func newDevices(d Devices, log *slog.Logger) devices {
	if d.Index == nil {
		d.Index = func(string) int { return 0 }
	}
	if d.Names == nil {
		d.Names = func() ([]string, error) { return nil, nil }
	}
	if d.Tidy == nil {
		d.Tidy = func(context.Context, []config.Link) error { return nil }
	}
	return devices{d, log}
}

// open gets the backend of one of the links, unless another of them steers its device.
func (d devices) open(l *link, all links) (dataplane.Backend, error) {
	l.index = d.Index(l.config.Device)
	if err := all.twice(l); err != nil {
		return nil, err
	}
	backend, err := d.Open(l.config)
	l.index = d.Index(l.config.Device) // Index may have been behind the kernel
	return backend, err
}

// tidy removes what was left of links that there are no longer.
func (d devices) tidy(ctx context.Context, links []config.Link) {
	if err := d.Tidy(ctx, links); err != nil {
		d.log.Warn("what is left of former links cannot be removed; weir cleanup tries again", "err", err)
	}
}
