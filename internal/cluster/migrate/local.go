// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
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
	dir    string
	log    *slog.Logger

	mu      sync.Mutex
	copies  map[string]*incoming
	closing bool
}

// fate of a copy.
type fate string

const (
	fateProbation fate = "probation" // it is held, and ends at its time
	fateConfirmed fate = "confirmed" // it is the container
	fateDiscarded fate = "discarded" // it must not run, whatever order comes late
)

// incoming is this node's record of a copy.
type incoming struct {
	mu    sync.Mutex // one step at a time
	timer *time.Timer

	Fate  fate      `json:"fate"`
	Until time.Time `json:"until"` // end of the probation
	Order Order     `json:"order"`
}

// forgetCopies is how long a node remembers what became of a copy, in case an order
// for it comes late.
const forgetCopies = 24 * time.Hour

// NewLocal makes a node of an engine. What happened to copies is kept in dir. Those
// that are on probation since before are ended in time.
func NewLocal(name string, e Engine, dir string, log *slog.Logger) (*Local, error) {
	l := &Local{name: name, engine: e, dir: filepath.Join(dir, "incoming"), log: log, copies: map[string]*incoming{}}
	if err := safepath.Folder(l.dir, 0o700); err != nil {
		return nil, err
	}
	return l, l.load()
}

// load reads the records of copies.
func (l *Local) load() error {
	files, err := filepath.Glob(filepath.Join(l.dir, "*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := safepath.ReadFile(file)
		if err != nil {
			return err
		}
		c := &incoming{}
		if err := json.Unmarshal(text, c); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		c.Order.Move = strings.TrimSuffix(filepath.Base(file), ".json")
		l.copies[c.Order.Move] = c
		if c.Fate != fateProbation {
			c.shorten()
			l.forgetLater(c)
			continue
		}
		l.watch(c)
		go l.holdAgain(c, c.Order.Move, c.Order.Container.Name)
	}
	return nil
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
func (l *Local) Lacking(ctx context.Context, o Order) ([]Finding, error) {
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
	var e *Error
	if !errors.As(err, &e) || e.Node != "" {
		return err
	}
	copied := *e
	copied.Node = l.name
	return &copied
}

// Send writes a part of a container.
func (l *Local) Send(ctx context.Context, p Part, o Order, w io.Writer) (Outcome, error) {
	out, err := l.engine.Send(ctx, p, o, w)
	return out, l.named(err)
}

// Receive takes a part of a container.
func (l *Local) Receive(ctx context.Context, p Part, o Order, r io.Reader) (Outcome, error) {
	if fate := l.fate(o.Move); fate == fateDiscarded || fate == fateConfirmed {
		return Outcome{}, l.named(&Error{Code: CodeGone, Msg: fmt.Sprintf("the copy of %s is %s", o.Container.Name, fate)})
	}
	out, err := l.engine.Receive(ctx, p, o, r)
	return out, l.named(err)
}

// Do takes a step.
func (l *Local) Do(ctx context.Context, step Step, o Order) (out Outcome, err error) {
	if !movePattern.MatchString(o.Move) {
		return out, l.named(&Error{Code: CodeRefused, Msg: fmt.Sprintf("migration id %q", o.Move)})
	}
	switch step {
	case StepCreate:
		if fate := l.fate(o.Move); fate != "" {
			return out, l.named(&Error{Code: CodeGone, Msg: fmt.Sprintf("the copy of %s is %s", o.Container.Name, fate)})
		}
		out, err = l.engine.Do(ctx, step, o)
	case StepRestore:
		out, err = l.restore(ctx, o)
	case StepConfirm:
		out, err = l.confirm(ctx, o)
	case StepDiscard:
		out, err = l.discard(ctx, o)
	default:
		out, err = l.engine.Do(ctx, step, o)
	}
	return out, l.named(err)
}

// Knows reports whether a copy of a migration was restored or discarded here.
func (l *Local) Knows(move string) bool { return l.fate(move) != "" }

func (l *Local) fate(move string) fate {
	l.mu.Lock()
	c := l.copies[move]
	l.mu.Unlock()
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Fate
}

// copyOf returns the record of a copy, locked, and makes it if there is none.
func (l *Local) copyOf(o Order) *incoming {
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
func (l *Local) restore(ctx context.Context, o Order) (out Outcome, err error) {
	c := l.copyOf(o)
	defer c.mu.Unlock()
	switch c.Fate {
	case fateConfirmed:
		return out, nil
	case fateDiscarded:
		return out, &Error{Code: CodeGone, Msg: fmt.Sprintf("the copy of %s was discarded", o.Container.Name)}
	}
	c.Order, c.Until = o, time.Now().Add(o.Lease)
	if err := l.set(c, fateProbation); err != nil {
		return out, err
	}
	l.watch(c)
	ctx, cancel := context.WithTimeout(ctx, o.Lease)
	defer cancel()
	out, err = l.engine.Do(ctx, StepRestore, o)
	if err != nil {
		return out, err
	}
	if _, running, err := l.engine.Copy(ctx, o.Move); err != nil || !running {
		return out, errors.Join(err, &Error{Code: CodeFailed, Msg: fmt.Sprintf("the copy of %s has ended at once", o.Container.Name)})
	}
	return out, l.engine.Hold(ctx, o)
}

// holdEvery is the time between two attempts of holdAgain's.
const holdEvery = 200 * time.Millisecond

// holdAgain holds a copy of which a former process may have died between its restore
// and its being held. The restore may be under way still, so it looks until the probation ends.
func (l *Local) holdAgain(c *incoming, move, workload string) {
	told := false
	for {
		err := l.tryHold(c)
		if err == nil {
			return
		}
		if codeOf(err) != CodeGone && !told {
			told = true
			l.log.Warn("a copy cannot be held, trying again", "workload", workload, "move", move, "err", err)
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
	if closing || c.Fate != fateProbation || !time.Now().Before(c.Until) {
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
		if c.Fate != fateProbation || closing {
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
func (l *Local) confirm(ctx context.Context, o Order) (out Outcome, err error) {
	c := l.copyOf(o)
	defer c.mu.Unlock()
	gone := &Error{Code: CodeGone, Msg: fmt.Sprintf("the copy of %s is no more", o.Container.Name)}
	switch c.Fate {
	case fateConfirmed:
		return l.keep(ctx, o)
	case fateDiscarded, "":
		return out, gone
	}
	_, running, err := l.engine.Copy(ctx, o.Move)
	if err != nil {
		return out, err
	}
	if !running {
		return out, errors.Join(gone, l.end(ctx, c))
	}
	if err := l.set(c, fateConfirmed); err != nil {
		return out, err
	}
	l.forgetLater(c)
	return l.keep(ctx, o)
}

// keep lets a confirmed copy run.
func (l *Local) keep(ctx context.Context, o Order) (Outcome, error) {
	if err := l.engine.Release(ctx, o); err != nil {
		return Outcome{}, err
	}
	id, _, err := l.engine.Copy(ctx, o.Move)
	if err != nil {
		return Outcome{}, err
	}
	out, err := l.engine.Do(ctx, StepConfirm, o)
	out.Copy = id
	return out, err
}

// discard ends the copy for good.
func (l *Local) discard(ctx context.Context, o Order) (out Outcome, err error) {
	c := l.copyOf(o)
	defer c.mu.Unlock()
	if c.Fate == fateConfirmed {
		return out, &Error{Code: CodeRefused, Msg: fmt.Sprintf("the copy of %s is the container by now", o.Container.Name)}
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
	if _, err := l.engine.Do(ctx, StepDiscard, c.Order); err != nil {
		return err
	}
	if err := l.set(c, fateDiscarded); err != nil { // a full disk, say: then remembered for as long as this process lives
		c.Fate = fateDiscarded
		l.log.Warn("that a copy was discarded cannot be written down", "workload", c.Order.Container.Name, "move", c.Order.Move, "err", err)
		c.shorten()
	}
	l.forgetLater(c)
	return nil
}

// set writes down what becomes of a copy.
func (l *Local) set(c *incoming, f fate) error {
	was, order := c.Fate, c.Order
	c.Fate = f
	if f != fateProbation {
		c.shorten()
	}
	data, err := json.Marshal(c)
	if err == nil {
		err = atomicfile.Write(l.file(c.Order.Move), data, 0o600)
	}
	if err != nil {
		c.Fate, c.Order = was, order
	}
	return err
}

func (l *Local) file(move string) string { return filepath.Join(l.dir, move+".json") }

// shorten drops the description of a copy that has ended: what comes late brings its own.
func (c *incoming) shorten() {
	c.Order = Order{Move: c.Order.Move, From: c.Order.From, Container: Container{Name: c.Order.Container.Name}}
}

// forgetLater has the end of a copy forgotten when no order for it can come any more.
// The copy is locked, or no call knows it yet.
func (l *Local) forgetLater(c *incoming) {
	move := c.Order.Move
	l.after(c, c.Until.Add(forgetCopies), func() {
		l.mu.Lock()
		closing := l.closing
		if !closing {
			delete(l.copies, move)
		}
		l.mu.Unlock()
		if closing {
			return
		}
		if err := os.Remove(l.file(move)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.log.Warn("the end of a copy cannot be forgotten", "move", move, "err", err)
		}
	})
}
