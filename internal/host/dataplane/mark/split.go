// SPDX-License-Identifier: Apache-2.0

package mark

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/cilium/ebpf"

	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/device"
)

// Packets that are too long for a link are split before its qdisc (bpf/marking/split.h). All links
// of a namespace share the devices where that is done.

var (
	// What leaves by a link whose packets need not be told apart: in the place of egress.
	long = hook{ebpf.AttachTCXEgress, device.ClsactEgress, "egress", classifyProgWeirRulesLong, 0}
	// What leaves by the splitter's second device: frames.
	frames = hook{ebpf.AttachTCXEgress, device.ClsactEgress, "frames", classifyProgWeirRulesSegm, 0}
)

// splitter is a Marker at the devices that split packets.
type splitter struct{ *Marker }

// splitting says which packets of a link are split.
type splitting struct {
	over uint32 // bytes; 0 = none are
	by   int    // index of the device that does it
}

// ready makes the devices that a link with this state needs. Where they cannot be had, packets stay
// whole, and Gaps says so.
func (s splitter) ready(state plan.State) splitting {
	said := s.gap()
	s.splits, s.whole = splitting{}, nil
	over := device.SplitOver(state.Link.Capacity)
	if over == 0 {
		return s.splits
	}
	at, err := s.conn.EnsureSplitter()
	if err == nil {
		err = s.attach(frames, at.Out, "weir-gso-out", 0, Marking{}, func(*program) {})
	}
	if err != nil {
		s.whole = err
		if s.gap() != said {
			s.log.Warn("packets of segmentation offload are not split", "link", state.Link.Place(), "err", err)
		}
		return s.splits
	}
	s.splits = splitting{over, at.In}
	return s.splits
}

// set has a link split what is too long for it, and do nothing else.
func (s splitter) set(dev device.Device, state plan.State, sockets Sockets) error {
	splits := s.ready(state)
	if splits.over == 0 {
		return s.detach(egress, dev.Index)
	}
	return s.attach(long, dev.Index, dev.Name, 0, Marking{}, func(p *program) {
		p.reown(sockets)
		p.split(splits)
	})
}

// Split has a link of another owner's qdisc split what is too long for a capacity, for comparisons.
// undo takes that away.
func Split(name string, capacity policy.Rate, opts dataplane.Options, log *slog.Logger) (undo func() error, err error) {
	m, err := New(opts, log)
	if err != nil {
		return nil, err
	}
	undo = func() error { return errors.Join(m.CleanupAll(), m.Close()) }
	dev, err := m.conn.Lookup(name)
	if err == nil {
		err = splitter{m}.set(dev, plan.State{Link: plan.Link{Device: name, Capacity: capacity}}, Sockets{})
	}
	if err = errors.Join(err, m.whole); err != nil {
		err = errors.Join(err, undo())
	}
	return undo, err
}

// split has the program split packets.
func (p *program) split(s splitting) {
	p.place.SplitOver, p.place.SplitBy = s.over, uint32(s.by)
	p.place.Digest = p.digest()
}

// missing says what of the devices, or the program there, is gone.
func (s splitter) missing() ([]string, error) {
	if s.splits.over == 0 {
		return nil, nil
	}
	at, err := s.conn.Splitter()
	if err != nil {
		return nil, err
	}
	if at == (device.Splitter{}) {
		return []string{"the devices that split packets of offload are gone or changed"}, nil
	}
	_, err = s.at(frames).read(at.Out)
	switch {
	case errors.Is(err, errNotOurs):
		return []string{"the program behind the splitting of packets is gone"}, nil
	case errors.As(err, new(preceded)):
		return []string{fmt.Sprintf("behind the splitting of packets: %v", err)}, nil
	case errors.Is(err, dataplane.ErrNoDevice):
		return nil, nil // this very moment
	}
	return nil, err
}

// end removes the devices, with the last link.
func (s splitter) end() error {
	return errors.Join(detachAll(s.at(frames)), s.conn.DeleteSplitter())
}

// gap is what is not held without the devices, "" if they are there.
func (s splitter) gap() string {
	if s.whole == nil {
		return ""
	}
	return fmt.Sprintf("Packets of segmentation offload stay whole, up to 64 KB each, and keep a slow link busy for that long: %v.", s.whole)
}
