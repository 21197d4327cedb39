// SPDX-License-Identifier: Apache-2.0

// Package discovertest has a Source for tests of the packages that use Sources: it
// reports the lists that a test sets.
//
//	src := discovertest.New("docker")
//	go src.Run(ctx, report)
//	src.Set(discover.Workload{Key: "docker:web", Name: "web"}) // reports one workload
//	src.Set()                                                  // reports none
package discovertest

import (
	"context"
	"slices"
	"sync"

	"weir/internal/core/workload"
	"weir/internal/host/discover"
)

// Source is a discover.Source whose list a test sets.
type Source struct {
	name string

	mu      sync.Mutex
	list    []discover.Workload
	state   workload.SourceState
	note    string
	changed chan struct{} // closed and replaced at each Set
}

// New returns a Source whose list is empty and whose status is "ok".
func New(name string) *Source {
	return &Source{name: name, state: workload.SourceOK, changed: make(chan struct{})}
}

// Name returns the name given to New.
func (s *Source) Name() string { return s.name }

// Set replaces the list. Lists that follow each other faster than Run can report
// them are skipped, as a real source skips them.
func (s *Source) Set(list ...discover.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.Clone(list)
	close(s.changed)
	s.changed = make(chan struct{})
}

// SetStatus sets what Status answers.
func (s *Source) SetStatus(state workload.SourceState, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.note = state, note
}

// Status returns the answer that SetStatus set last.
func (s *Source) Status() (state workload.SourceState, note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.note
}

// Run reports the present list and every later one until ctx ends.
func (s *Source) Run(ctx context.Context, report func([]discover.Workload)) error {
	for {
		s.mu.Lock()
		list, changed := slices.Clone(s.list), s.changed
		s.mu.Unlock()
		report(list)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}
