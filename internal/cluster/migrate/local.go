// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/base/statefile"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// Local is this machine's engine as a Node: it adds names to the engine's errors, and
// puts copies on probation.
//
// What it has to know after a crash is one small file for each copy:
//
//	DIR/incoming/MOVE.json    {"fate":"probation","until":"...","order":{...}}
type Local struct {
	name   string
	engine Engine
	files  statefile.Folder[incoming]
	log    *slog.Logger

	mu      sync.Mutex
	copies  map[string]*incoming
	closing bool
}

// incoming is this node's record of a copy.
type incoming struct {
	mu    sync.Mutex // one step at a time
	timer *time.Timer

	Fate  move.ContainerState `json:"fate"`
	Until time.Time           `json:"until"` // end of the probation
	Order MoveSpec            `json:"order"`
}

// forgetCopies is how long a node remembers what became of a copy, in case an order
// for it comes late.
const forgetCopies = 24 * time.Hour

// NewLocal makes a node of an engine. What happened to copies is kept in dir. Those
// that are on probation since before are ended in time.
func NewLocal(name string, e Engine, dir string, log *slog.Logger) (*Local, error) {
	files, all, err := statefile.Open[incoming](filepath.Join(dir, "incoming"), log)
	if err != nil {
		return nil, err
	}
	l := &Local{name: name, engine: e, files: files, log: log}
	l.goOn(all)
	return l, nil
}

// goOn looks after the copies that a former process has left.
func (l *Local) goOn(all map[string]*incoming) {
	l.copies = all
	for id, c := range all {
		c.Order.Move = id
		if c.Fate != move.Probation {
			c.shorten()
			l.forgetLater(c)
			continue
		}
		l.watch(c)
		go l.holdAgain(c, id, c.Order.Container.Name)
	}
}

// Close ends the probations' clocks, not the copies.
func (l *Local) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	for _, c := range l.copies {
		if c.timer != nil {
			c.timer.Stop()
		}
	}
	return l.engine.Close()
}

// Name of the node.
func (l *Local) Name() string { return l.name }

// Kind of the engine, docker or podman.
func (l *Local) Kind() wire.EngineName { return l.engine.Kind() }

// Facts of the engine and the machine.
func (l *Local) Facts(ctx context.Context) (Facts, error) {
	f, err := l.engine.Facts(ctx)
	f.Node = l.name
	return f, l.named(err)
}

// Describe finds a container.
func (l *Local) Describe(ctx context.Context, name string) (Container, error) {
	c, err := l.engine.Describe(ctx, name)
	return c, l.named(err)
}

// Lacking returns the engine's findings about an order, with this node's name.
func (l *Local) Lacking(ctx context.Context, o MoveSpec) ([]PreflightFinding, error) {
	list, err := l.engine.Lacking(ctx, o)
	for i := range list {
		list[i].Node = l.name
	}
	return list, l.named(err)
}

// Admit shows the engine the manager's grant that is in ctx, if the engine is one that
// examines it: the helper's (remote.Engine). All others obey their caller.
func (l *Local) Admit(ctx context.Context) error {
	if e, ok := l.engine.(interface{ Admit(context.Context) error }); ok {
		return l.named(e.Admit(ctx))
	}
	return nil
}

// named puts the node's name to a definite answer.
func (l *Local) named(err error) error {
	var e *move.Error
	if !errors.As(err, &e) || e.Node != "" {
		return err
	}
	copied := *e
	copied.Node = l.name
	return &copied
}

// Send writes a part of a container.
func (l *Local) Send(ctx context.Context, p Part, o MoveSpec, w io.Writer) (StepOutcome, error) {
	out, err := l.engine.Send(ctx, p, o, w)
	return out, l.named(err)
}

// Receive takes a part of a container.
func (l *Local) Receive(ctx context.Context, p Part, o MoveSpec, r io.Reader) (out StepOutcome, err error) {
	_, err = l.may(l.fate(o.Move), move.Receive, o)
	if err == nil {
		out, err = l.engine.Receive(ctx, p, o, r)
	}
	return out, l.named(err)
}

// Do takes a step.
func (l *Local) Do(ctx context.Context, step move.Step, o MoveSpec) (out StepOutcome, err error) {
	if !movePattern.MatchString(o.Move) {
		return out, l.named(&move.Error{Code: move.CodeRefused, Msg: fmt.Sprintf("migration id %q", o.Move)})
	}
	switch step {
	case move.Create:
		if _, err = l.may(l.fate(o.Move), step, o); err == nil {
			out, err = l.engine.Do(ctx, step, o)
		}
	case move.Restore:
		out, err = l.restore(ctx, o)
	case move.Confirm:
		out, err = l.confirm(ctx, o)
	case move.Discard:
		out, err = l.discard(ctx, o)
	default:
		out, err = l.engine.Do(ctx, step, o)
	}
	return out, l.named(err)
}

// Knows reports whether a copy of a migration was restored or discarded here.
func (l *Local) Knows(move string) bool { return l.fate(move) != "" }

// may asks what may be done about a copy with a fate.
func (l *Local) may(fate move.ContainerState, step move.Step, o MoveSpec) (again bool, err error) {
	c := move.Question{By: move.Copies, Step: step, State: fate, Move: o.Move, Container: o.Container.Name}
	c.Note(l.files.Damaged(o.Move), move.Damaged)
	return c.Take()
}

func (l *Local) fate(id string) move.ContainerState {
	l.mu.Lock()
	c := l.copies[id]
	l.mu.Unlock()
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Fate
}

// copyOf returns the record of a copy, locked, and makes it if there is none.
func (l *Local) copyOf(o MoveSpec) *incoming {
	l.mu.Lock()
	c := l.copies[o.Move]
	if c == nil {
		c = &incoming{Order: o}
		l.copies[o.Move] = c
	}
	l.mu.Unlock()
	c.mu.Lock()
	return c
}

// restore brings the copy back, on probation and held: it does not run before it is
// confirmed, whatever becomes of this process or of the network. The clock starts
// before it could run.
func (l *Local) restore(ctx context.Context, o MoveSpec) (out StepOutcome, err error) {
	c := l.copyOf(o)
	defer c.mu.Unlock()
	if again, err := l.may(c.Fate, move.Restore, o); again || err != nil {
		return out, err
	}
	c.Order, c.Until = o, time.Now().Add(o.Lease)
	if err := l.set(c, move.Probation); err != nil {
		return out, err
	}
	l.watch(c)
	ctx, cancel := context.WithTimeout(ctx, o.Lease)
	defer cancel()
	out, err = l.engine.Do(ctx, move.Restore, o)
	if err != nil {
		return out, err
	}
	if _, running, err := l.engine.Copy(ctx, o.Move); err != nil || !running {
		return out, errors.Join(err, &move.Error{Code: move.CodeFailed, Msg: fmt.Sprintf("the copy of %s has ended at once", o.Container.Name)})
	}
	return out, l.engine.Hold(ctx, o)
}

// holdEvery is the time between two attempts of holdAgain's.
const holdEvery = 200 * time.Millisecond

// holdAgain holds a copy of which a former process may have died between its restore
// and its being held. The restore may be under way still, so it looks until the probation ends.
func (l *Local) holdAgain(c *incoming, id, workload string) {
	told := false
	for {
		err := l.tryHold(c)
		if err == nil {
			return
		}
		if move.CodeOf(err) != move.CodeGone && !told {
			told = true
			l.log.Warn("a copy cannot be held, trying again", "workload", workload, "move", id, "err", err)
		}
		time.Sleep(holdEvery)
	}
}

// tryHold holds a copy on probation. It returns an error if it is to be tried again.
func (l *Local) tryHold(c *incoming) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.mu.Lock()
	closing := l.closing
	l.mu.Unlock()
	if closing || c.Fate != move.Probation || !time.Now().Before(c.Until) {
		return nil
	}
	ctx, cancel := context.WithDeadline(context.Background(), c.Until)
	defer cancel()
	return l.engine.Hold(ctx, c.Order)
}

// after has f called at a time, in the place of what was to be called before. The copy is
// locked; Close reads the timer without that.
func (l *Local) after(c *incoming, at time.Time, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	if !l.closing {
		c.timer = time.AfterFunc(time.Until(at), f)
	}
}

// watch ends a copy when its probation is over.
func (l *Local) watch(c *incoming) {
	l.after(c, c.Until, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		l.mu.Lock()
		closing := l.closing
		l.mu.Unlock()
		if c.Fate != move.Probation || closing {
			return
		}
		l.log.Warn("a copy was not confirmed in time and is discarded", "workload", c.Order.Container.Name, "move", c.Order.Move, "from", c.Order.From)
		if err := l.end(context.Background(), c); err != nil {
			l.log.Error("a copy cannot be discarded, trying again", "workload", c.Order.Container.Name, "move", c.Order.Move, "err", err)
			c.timer.Reset(time.Second)
		}
	})
}

// confirm makes the copy the container. The confirmation is on disk before any
// caller learns of it.
func (l *Local) confirm(ctx context.Context, o MoveSpec) (out StepOutcome, err error) {
	c := l.copyOf(o)
	defer c.mu.Unlock()
	if _, err := l.may(c.Fate, move.Confirm, o); err != nil {
		return out, err
	}
	if c.Fate == move.Confirmed {
		return l.keep(ctx, o)
	}
	_, running, err := l.engine.Copy(ctx, o.Move)
	if err != nil {
		return out, err
	}
	if !running {
		return out, errors.Join(&move.Error{Code: move.CodeGone, Msg: fmt.Sprintf("the copy of %s is no more", o.Container.Name)}, l.end(ctx, c))
	}
	if err := l.set(c, move.Confirmed); err != nil {
		return out, err
	}
	l.forgetLater(c)
	return l.keep(ctx, o)
}

// keep lets a confirmed copy run.
func (l *Local) keep(ctx context.Context, o MoveSpec) (StepOutcome, error) {
	if err := l.engine.Release(ctx, o); err != nil {
		return StepOutcome{}, err
	}
	id, _, err := l.engine.Copy(ctx, o.Move)
	if err != nil {
		return StepOutcome{}, err
	}
	out, err := l.engine.Do(ctx, move.Confirm, o)
	out.Copy = id
	return out, err
}

// discard ends the copy for good.
func (l *Local) discard(ctx context.Context, o MoveSpec) (out StepOutcome, err error) {
	c := l.copyOf(o)
	defer c.mu.Unlock()
	if _, err := l.may(c.Fate, move.Discard, o); err != nil {
		return out, err
	}
	c.Order = o
	return out, l.end(ctx, c)
}

// end marks a copy as discarded, so that no late order brings it back, and removes it.
func (l *Local) end(ctx context.Context, c *incoming) error {
	if c.Until.IsZero() {
		c.Until = time.Now()
	}
	// On probation until it is removed: a crash in between tries again.
	if _, err := l.engine.Do(ctx, move.Discard, c.Order); err != nil {
		return err
	}
	if err := l.set(c, move.Discarded); err != nil { // a full disk, say: then remembered for as long as this process lives
		c.Fate = move.Discarded
		l.log.Warn("that a copy was discarded cannot be written down", "workload", c.Order.Container.Name, "move", c.Order.Move, "err", err)
		c.shorten()
	}
	l.forgetLater(c)
	return nil
}

// set writes down what becomes of a copy.
func (l *Local) set(c *incoming, f move.ContainerState) error {
	was, order := c.Fate, c.Order
	c.Fate = f
	if f != move.Probation {
		c.shorten()
	}
	err := l.files.Put(c.Order.Move, c)
	if err != nil {
		c.Fate, c.Order = was, order
	}
	return err
}

// shorten drops the description of a copy that has ended: what comes late brings its own.
func (c *incoming) shorten() {
	c.Order = MoveSpec{Move: c.Order.Move, From: c.Order.From, Container: Container{Name: c.Order.Container.Name}}
}

// forgetLater has the end of a copy forgotten when no order for it can come any more.
// The copy is locked, or no call knows it yet.
func (l *Local) forgetLater(c *incoming) {
	id := c.Order.Move
	l.after(c, c.Until.Add(forgetCopies), func() {
		l.mu.Lock()
		closing := l.closing
		if !closing {
			delete(l.copies, id)
		}
		l.mu.Unlock()
		if closing {
			return
		}
		if err := l.files.Remove(id); err != nil {
			l.log.Warn("the end of a copy cannot be forgotten", "move", id, "err", err)
		}
	})
}
