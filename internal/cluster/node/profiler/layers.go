// SPDX-License-Identifier: Apache-2.0

package profiler

import (
	"context"
	"maps"
	"sync"
	"time"

	"weir/internal/cluster/profile"
)

const (
	layerFresh   = 5 * time.Minute  // for which the size of a container's layer counts as known
	layerTimeout = 30 * time.Second // of one look: it takes as long as there are files
)

// layers knows how large containers' own layers are, for what a move would cost. An
// engine has to look at each file for that, so one container is looked at at a time,
// beside the profiles, and each only now and then: of 100 containers each every eight
// minutes.
type layers struct {
	mu      sync.Mutex
	looking bool
	known   map[string]layer
	stop    context.CancelFunc
	done    sync.WaitGroup
}

type layer struct {
	bytes uint64
	at    time.Time
}

// size returns the size of a container's layer in bytes, 0 if it is not known.
func (l *layers) size(id string) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[id].bytes
}

// look has the container measured that has waited longest, if one is due, and forgets
// those that are not in the list.
func (l *layers) look(list []profile.Container, measure func(ctx context.Context, id string) (uint64, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil {
		l.known = map[string]layer{}
	}
	here, next, oldest := map[string]bool{}, "", time.Now().Add(-layerFresh)
	for _, c := range list {
		here[c.ID] = true
		if at := l.known[c.ID].at; at.Before(oldest) {
			next, oldest = c.ID, at
		}
	}
	maps.DeleteFunc(l.known, func(id string, _ layer) bool { return !here[id] })
	if l.looking || next == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), layerTimeout)
	l.looking, l.stop = true, cancel
	l.done.Go(func() {
		defer cancel()
		bytes, err := measure(ctx, next)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.looking = false
		if err != nil {
			bytes = l.known[next].bytes // as far as it is known
		}
		l.known[next] = layer{bytes, time.Now()}
	})
}

// close ends a look under way.
func (l *layers) close() {
	l.mu.Lock()
	if l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.done.Wait()
}
