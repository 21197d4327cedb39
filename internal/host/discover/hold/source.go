// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// source is a discover.Source that keeps its workloads' devices.
type source struct {
	discover.Source
	ports *Ports
	poke  chan struct{}
	// Guarded by Ports.mu: who has a device, as found last, and whether any is held.
	claims map[int][]discover.Workload
	holds  bool
}

// Hold returns a source that reports what src does, with the devices that src has lost.
func (p *Ports) Hold(src discover.Source) discover.Source {
	s := &source{Source: src, ports: p, poke: make(chan struct{}, 1)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sources = append(p.sources, s)
	return s
}

// Status returns the source's own, workload.SourceOK if it has none.
func (s *source) Status() (state workload.SourceState, note string) {
	if own, ok := s.Source.(interface {
		Status() (state workload.SourceState, note string)
	}); ok {
		return own.Status()
	}
	return workload.SourceOK, ""
}

// Recall takes what an earlier agent saw: a device that was moved away while no agent ran is
// still its workload's.
func (s *source) Recall(list []discover.Workload) {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	s.ports.take(s, list)
	for _, w := range list {
		for _, d := range w.Devices {
			if o := s.ports.owners[d.Ifindex]; o.workload.Key == w.Key {
				o.held = d.Held
			}
		}
	}
}

// Run reports the source's list now and whenever it has changed, or a device that the source
// has lost is gone.
func (s *source) Run(ctx context.Context, report func([]discover.Workload)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, stop := s.ports.table.Watch()
	defer stop()
	lists, ended := make(chan []discover.Workload), make(chan error, 1)
	go func() {
		ended <- s.Source.Run(ctx, func(list []discover.Workload) {
			select {
			case lists <- list:
			case <-ctx.Done():
			}
		})
	}()
	var found, said []discover.Workload
	known, reported := false, false
	for {
		select {
		case err := <-ended:
			return err
		case found = <-lists:
			known = true
		case <-changes:
			if !s.holding() {
				continue
			}
		case <-s.poke:
		}
		if !known {
			continue
		}
		list := s.ports.settle(s, found)
		slices.SortFunc(list, func(a, b discover.Workload) int { return strings.Compare(a.Key, b.Key) })
		if !reported || !reflect.DeepEqual(list, said) {
			said, reported = list, true
			report(slices.Clone(list)) // what the receiver does to its copy is its business
		}
	}
}

// holding reports whether the source has lost a device that is still there.
func (s *source) holding() bool {
	s.ports.mu.Lock()
	defer s.ports.mu.Unlock()
	return s.holds
}

// wake has the source look at its devices again.
func (s *source) wake() {
	select {
	case s.poke <- struct{}{}:
	default:
	}
}
