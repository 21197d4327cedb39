// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"weir/internal/api"
	"weir/internal/base/retry"
	"weir/internal/core/event"
)

const (
	most        = 1000 // events that wait for one way
	firstPause  = time.Second
	longPause   = time.Minute
	giveUpAfter = time.Hour // since the event
)

// way delivers one event. An error that is final says that another attempt would not help.
type way interface {
	deliver(ctx context.Context, e event.Event) error
	to() string // for people, without secrets
}

// final is an error after which the event is given up.
type final struct{ error }

// Unwrap returns the error itself.
func (f final) Unwrap() error { return f.error }

// sink is a way with the events that wait for it.
type sink struct {
	log    *slog.Logger
	way    way
	cancel context.CancelFunc
	done   chan struct{} // closed when its goroutine has ended
	wake   chan struct{}

	mu      sync.Mutex
	waiting []event.Event
	reached uint64 // id of the last event that is delivered, given up or not wanted, with all before
	status  api.EventSink
}

// start begins to deliver what waits in the sink before, with its counts: once that one has
// ended, if it was started.
func start(log *slog.Logger, w way, before *sink) *sink {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sink{log: log.With("address", w.to()), way: w, cancel: cancel, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	before.mu.Lock()
	s.waiting, s.reached, s.status = before.waiting, before.reached, before.status
	before.waiting = nil
	before.mu.Unlock()
	s.status.To = w.to()
	go func() {
		defer close(s.done)
		if before.done != nil {
			<-before.done
		}
		s.run(ctx)
	}()
	return s
}

// add queues an event; the oldest falls out of a full queue.
func (s *sink) add(e event.Event) {
	s.mu.Lock()
	s.waiting = append(s.waiting, e)
	full := len(s.waiting) > most
	if full {
		s.reached = s.waiting[0].ID
		s.waiting = s.waiting[1:]
		s.status.Undelivered++
	}
	s.mu.Unlock()
	if full {
		s.log.Error("too many events wait, the oldest is given up", "waiting", most)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// skip notes an event that is not for this way.
func (s *sink) skip(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		s.reached = id
	}
}

func (s *sink) last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached
}

func (s *sink) view() api.EventSink {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.status
	v.Waiting = len(s.waiting)
	return v
}

// run delivers until ctx ends.
func (s *sink) run(ctx context.Context) {
	for {
		e, ok := s.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		err := s.try(ctx, e)
		if ctx.Err() != nil {
			return
		}
		s.finish(e, err)
	}
}

func (s *sink) next() (event.Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) == 0 {
		return event.Event{}, false
	}
	return s.waiting[0], true
}

// try makes attempts until one succeeds, the error is final or the event is too old.
func (s *sink) try(ctx context.Context, e event.Event) error {
	pauses := retry.New(firstPause, longPause)
	for {
		err := s.way.deliver(ctx, e)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.noted(err)
		var no final
		if err == nil || errors.As(err, &no) || time.Since(e.At) > giveUpAfter {
			return err
		}
		if !pauses.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// noted logs that a way has begun to fail, and that it works again, once each.
func (s *sink) noted(err error) {
	s.mu.Lock()
	failed := s.status.Error != ""
	s.status.Error = ""
	if err != nil {
		s.status.Error = err.Error()
	}
	s.mu.Unlock()
	switch {
	case err != nil && !failed:
		s.log.Warn("event not delivered", "err", err)
	case err == nil && failed:
		s.log.Info("events are delivered again")
	}
}

// finish takes an event out of the queue, which may have fallen out of it meanwhile.
func (s *sink) finish(e event.Event, err error) {
	s.mu.Lock()
	if len(s.waiting) > 0 && s.waiting[0].ID == e.ID {
		s.waiting, s.reached = s.waiting[1:], e.ID
		if err == nil {
			s.status.Delivered++
		} else {
			s.status.Undelivered++
		}
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("event given up", "event", e.Kind, "id", e.ID, "err", err)
	}
}
