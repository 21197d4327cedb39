// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/host/agent/attempts"
	"weir/internal/host/agent/usage"
	"weir/internal/host/dataplane"
	"weir/internal/host/dataplane/pace"
)

// link is one steered device: its backend, the plan that it should match, and what was
// measured. It belongs to the agent's goroutine.
type link struct {
	config  config.Link
	log     *slog.Logger
	index   int               // of the device, when the backend was opened; 0 = there was none, or it is not known
	backend dataplane.Backend // nil while the link is not steered
	ended   chan error        // the backend's Run has returned
	cancel  context.CancelFunc

	classes   map[plan.ClassID]plan.Class // of want
	want      plan.State
	inForce   plan.State // what Set was last told, or what an earlier agent left
	dirty     bool       // want is not in force
	err       error      // why the link is not steered, or not as wanted
	complaint string     // the err that was written down
	again     attempts.Attempts
	healing   attempts.Healing
	disturbed disturbance
	repaired  string // what disturb found and was set again since the last look, "" = nothing
	lockLimit func(l config.Link, backend string) string
	warning   string              // that the capacity is above the limit of one lock; "" = it is not
	pacer     *pace.Pacer         // of its reservations
	abilities dataplane.Abilities // of the backend, or of the one before
	count     func(*link, dataplane.LinkCounters)
	down      func(device string) string
	last      dataplane.LinkCounters
	now       usage.Division
	history   usage.History
	scores    usage.Scores
	waits     usage.Waits
	resting   bool // nothing moved in the second that now is about
}

// open gets a backend and learns what an earlier agent left.
func (l *link) open(ctx context.Context, open func(*link) (dataplane.Backend, error)) error {
	backend, err := open(l)
	if err != nil {
		return err
	}
	left, err := backend.State()
	if err != nil && !errors.Is(err, dataplane.ErrNoDevice) {
		l.log.Warn("what an earlier agent left cannot be read, setting everything", "err", err)
	}
	l.backend, l.inForce, l.dirty = backend, l.known(left), true
	l.pacer.Adopt(l.inForce)
	l.want, l.resting = l.pacer.Paced(l.want), false
	l.account()
	ctx, l.cancel = context.WithCancel(ctx)
	ended := make(chan error, 1)
	l.ended = ended
	go func() { ended <- backend.Run(ctx) }()
	return nil
}

// known returns what was left, as far as it can be compared with the wanted plan: a
// kernel has no names for classes and does not know what a link's zone is to others, and a
// device without Weir has no link.
func (l *link) known(left plan.State) plan.State {
	if left.Link.Capacity == 0 {
		return plan.State{}
	}
	left.Link.Class, left.Link.Part, left.Link.Aside = l.want.Link.Class, l.want.Link.Part, l.want.Link.Aside
	for i, class := range left.Classes {
		if want, ok := l.want.Class(class.ID); ok && class.Name == "" {
			left.Classes[i].Name = want.Name
		}
	}
	return left
}

// close lets go of the backend; the kernel goes on scheduling.
func (l *link) close() {
	if l.backend == nil {
		return
	}
	l.halt()
	if err := l.backend.Close(); err != nil {
		l.log.Warn("closing the link's backend", "err", err)
	}
	l.backend = nil
}

// halt ends what the backend does by itself. It may be called again.
func (l *link) halt() {
	l.cancel()
	l.ended <- <-l.ended
}

// giveBack leaves the device as it was before Weir came.
func (l *link) giveBack(ctx context.Context) {
	if l.backend == nil {
		return
	}
	l.halt()
	if err := l.backend.Cleanup(ctx); err != nil {
		l.log.Error("link cannot be given back; weir cleanup tries again", "err", err)
	} else {
		l.log.Info("link given back", "why", "neither the configuration nor a switch names it any longer")
	}
	l.close()
}

// set makes the kernel match want and returns what was changed.
func (l *link) set(ctx context.Context, now time.Time) ([]plan.Edit, error) {
	if plan.Loses(l.inForce, l.want) {
		l.account()
	}
	err := l.backend.Set(ctx, l.want)
	l.healing.Done(now, time.Since(now))
	if err != nil {
		return nil, l.failed(err, now)
	}
	changes := plan.Brief(plan.Diff(l.inForce, l.want), l.inForce, l.want)
	if l.lockLimit != nil {
		l.warning = l.lockLimit(l.config, l.backend.Name())
	}
	l.inForce, l.dirty, l.err = l.want, false, nil
	l.again.Succeeded()
	if l.last.At.IsZero() {
		// What an earlier agent's classes sent is known from here on, so that the
		// first second already has rates. Failing that, the second has.
		if snapshot, err := l.backend.Counters(); err == nil {
			l.last = snapshot
			l.count(l, snapshot) // where counting begins, for an agent that is killed before its first second
		}
	}
	return changes, nil
}

// complain logs a problem when it is new, not at every attempt.
func (l *link) complain() {
	text := ""
	if l.err != nil {
		text = l.err.Error()
	}
	switch {
	case text == l.complaint:
	case text == "":
		l.log.Info("link is steered as wanted again")
	case errors.Is(l.err, dataplane.ErrNoDevice):
		l.log.Warn("waiting for the device", "err", l.err)
	default:
		l.log.Error("link is not steered as wanted, trying again", "err", l.err)
	}
	l.complaint = text
}

// wants takes the wanted state.
func (l *link) wants(want plan.State) {
	l.pacer.Follow(want)
	want = l.pacer.Paced(want)
	if len(plan.Diff(l.want, want)) > 0 {
		l.want, l.dirty, l.resting = want, true, false
		l.classes = make(map[plan.ClassID]plan.Class, len(want.Classes))
		for _, class := range want.Classes {
			l.classes[class.ID] = class
		}
	}
}

// failed notes why the link is not as wanted; reconcile tries again.
func (l *link) failed(err error, now time.Time) error {
	if errors.Is(err, dataplane.ErrNoDevice) {
		l.close()
	}
	l.err, l.dirty = err, true
	l.again.Failed(now)
	return err
}

// revive notes that a backend has ended, and opens one if it is time for an attempt.
func (l *link) revive(ctx context.Context, now time.Time, open func(*link) (dataplane.Backend, error)) {
	if l.backend != nil {
		select {
		case err := <-l.ended:
			l.ended <- err // for close
			if ctx.Err() != nil {
				return // everything ends
			}
			l.close()
			l.failed(fmt.Errorf("link %s: its backend ended: %w", l.config.Name(), err), now)
		default:
		}
	}
	if l.backend == nil && l.again.Due(now) {
		if err := l.open(ctx, open); err != nil {
			l.failed(err, now)
		}
	}
}

// reconcile does what time asks for of a link that has a backend: a new attempt to set it,
// a check of the kernel.
func (l *link) reconcile(ctx context.Context, now time.Time) []plan.Edit {
	if ctx.Err() != nil || l.backend == nil || !l.again.Due(now) {
		return nil
	}
	if !l.dirty && !l.healing.Due(now) && !l.disturb(now) && !l.moved() {
		return nil
	}
	changes, err := l.set(ctx, now) // the failure is noted in the link
	if err != nil {
		l.repaired = ""
	}
	return changes
}

// disturbance is a change that another program or a person made, as the agent saw it last.
type disturbance struct {
	what string
	at   time.Time // when it was written down
}

// disturb says whether another program or a person has changed what the agent had set,
// and writes it down: once a minute where two programs undo each other's work.
func (l *link) disturb(now time.Time) bool {
	missing, err := l.backend.Missing()
	if err != nil { // once more: a list may have been interrupted by a change
		missing, err = l.backend.Missing()
	}
	if err != nil && !errors.Is(err, dataplane.ErrNoDevice) { // what cannot be read is not well
		_ = l.failed(fmt.Errorf("link %s: cannot compare the kernel with what was set: %w", l.config.Name(), err), now)
	}
	if err != nil || len(missing) == 0 {
		return false
	}
	what := strings.Join(missing[:min(len(missing), mostNamed)], "; ")
	if more := len(missing) - mostNamed; more > 0 {
		what += fmt.Sprintf("; and %d more", more)
	}
	l.repaired = what
	if what != l.disturbed.what || now.Sub(l.disturbed.at) >= time.Minute {
		l.log.Warn("another program changed what Weir set on the link; setting it again", "what", what)
		l.disturbed = disturbance{what, now}
	}
	return true
}

// moved reports whether what the link follows on this host is other than when it was set.
func (l *link) moved() bool {
	f, follows := l.backend.(dataplane.Follower)
	return follows && f.Moved()
}

// mostNamed is how many such changes one line of the log names.
const mostNamed = 5

// sample reads the counters and divides the link anew.
func (l *link) sample(now time.Time) {
	if l.backend == nil {
		l.now, l.last = usage.Division{State: l.want}, dataplane.LinkCounters{}
		return
	}
	snapshot, err := l.backend.Counters()
	if err != nil {
		if l.err != nil {
			return // known; another failure would only put off the next attempt
		}
		l.failed(fmt.Errorf("link %s: counters: %w", l.config.Name(), err), now)
		return
	}
	if l.resting && snapshot.Stands(l.last) {
		usage.Rest(now, &l.scores, &l.waits, &l.history)
		l.last = snapshot
		return
	}
	before := l.now
	l.now = usage.Between(l.want, l.last, snapshot)
	l.resting = snapshot.Stands(l.last)
	l.scores.Add(now, before, l.now)
	l.waits.Add(l.now.State, l.now.Used)
	l.last = snapshot
	l.count(l, snapshot)
	l.history.Add(l.now.Used)
}

// scheduler names what schedules the link: the backend's own, or the one that was asked
// for.
func (l *link) scheduler() string {
	if l.backend == nil {
		return l.config.Scheduler
	}
	return cmp.Or(l.abilities.Scheduler, l.config.Scheduler)
}
