// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/internal/cluster/clustertest"
	"weir/internal/cluster/clustertest/counter"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// The steps of a timeline that are about containers and faults; steps.go has the others.

// step takes a step and tells what became of it.
func (l *lab) step(ctx context.Context, st TimelineStep) {
	e := Event{Scenario: l.spec.Name, At: time.Since(l.began), Verb: st.verbs()[0], Label: st.Label, To: st.To}
	if err := l.take(ctx, st, &e); err != nil {
		e.Err = err.Error()
	}
	e.Took = time.Since(l.began) - e.At
	if st.Migrate != "" {
		l.mu.Lock()
		l.moved = append(l.moved, e)
		l.mu.Unlock()
	}
	if l.Event != nil {
		l.Event(e)
	}
}

func (l *lab) take(ctx context.Context, st TimelineStep, e *Event) error {
	on := func(name string, f func(*clustertest.Node) error) error {
		e.Subject = name
		return f(l.Node(name))
	}
	if st.During != nil {
		if err := l.plane.reached(ctx, *st.During); err != nil {
			return l.fail(st, err)
		}
	}
	if st.Await == "" {
		l.caption(st)
	}
	switch {
	case st.Say != "":
		e.Output = st.Say
		return nil
	case st.Measure > 0:
		return l.measure(ctx, st, e)
	case st.Weir != "":
		return l.weir(ctx, st, e)
	case st.Await != "":
		e.Subject = st.Await
		return l.await(ctx, st)
	case st.KillAgent != "":
		e.Subject = st.KillAgent
		l.plane.kill(st.KillAgent)
		return nil
	case st.StartAgent != "":
		e.Subject = st.StartAgent
		if err := l.plane.start(st.StartAgent); err != nil {
			return err
		}
		return l.plane.hears(ctx, st.StartAgent)
	case st.Manager == "kill":
		e.Subject = st.Manager
		l.plane.kill("")
		return nil
	case st.Manager == "start":
		e.Subject = st.Manager
		return l.plane.start("")
	case st.Journal != "":
		e.Subject = st.Journal
		var err error
		e.Output, err = l.plane.journal(st.Journal)
		return err
	case st.Start != "":
		e.Subject = st.Start
		return l.start(ctx, st.Start)
	case st.Remove != "":
		e.Subject = st.Remove
		return l.Node(l.place(ctx, st.Remove)).Remove(ctx, st.Remove)
	case st.Migrate != "":
		e.Subject = st.Migrate
		return l.migrate(ctx, st, e)
	case st.Checkpoint != "":
		e.Subject = st.Checkpoint
		return l.checkpoint(ctx, st.Checkpoint, e)
	case st.Cut != "":
		e.Subject = st.Cut
		return l.Cut(st.Cut)
	case st.Join != "":
		e.Subject = st.Join
		if err := l.Join(st.Join); err != nil || l.plane == nil {
			return err
		}
		return l.plane.hears(ctx, st.Join)
	case st.KillEngine != "":
		return on(st.KillEngine, func(n *clustertest.Node) error { return n.KillEngine(ctx) })
	case st.StartEngine != "":
		return on(st.StartEngine, func(n *clustertest.Node) error { return n.StartEngine(ctx) })
	case st.KillNode != "":
		return on(st.KillNode, func(n *clustertest.Node) error { return n.Machine().PowerOff() })
	case st.StartNode != "":
		return on(st.StartNode, func(n *clustertest.Node) error {
			if err := n.Machine().PowerOn(ctx); err != nil {
				return err
			}
			return l.plane.again(ctx, n.Name)
		})
	case st.FillDisk != "":
		return on(st.FillDisk, (*clustertest.Node).FillDisk)
	case st.FreeDisk != "":
		return on(st.FreeDisk, (*clustertest.Node).FreeDisk)
	case st.BreakCRIU != "":
		return on(st.BreakCRIU, (*clustertest.Node).BreakCRIU)
	case st.MendCRIU != "":
		return on(st.MendCRIU, (*clustertest.Node).MendCRIU)
	case st.Registry == "stop":
		e.Subject = st.Registry
		return l.StopRegistry()
	case st.Registry == "start":
		e.Subject = st.Registry
		return l.StartRegistry()
	}
	return l.wait(ctx, st.Wait)
}

func (l *lab) id() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moves++
	return fmt.Sprintf("lab-%d", l.moves)
}

func (l *lab) migrate(ctx context.Context, st TimelineStep, e *Event) error {
	if l.plane != nil {
		r, err := l.plane.migrate(ctx, st)
		if r.State != "" { // it was begun
			e.Migration = &r
		}
		if c, failed := l.count(ctx, st.Migrate); failed == nil {
			e.Gap = c.Gap
		}
		return err
	}
	from := l.place(ctx, st.Migrate)
	source, target := l.agents[from], l.agents[st.To]
	p, err := migrate.Check(ctx, source, target, migrate.Request{Move: l.id(), Container: st.Migrate, Approach: st.Approach, Registry: l.Registry})
	if err != nil {
		return err
	}
	if err := p.Err(); err != nil {
		return err
	}
	j, err := l.journals.Begin(p.Order)
	if err != nil {
		return err
	}
	defer j.Close()
	r, err := migrate.Run(ctx, source, target, j, l.Progress)
	e.Migration = &r
	if err != nil {
		return err
	}
	if r.State == wire.MoveDone {
		l.set(st.Migrate, st.To)
	}
	if c, err := l.count(ctx, st.Migrate); err == nil {
		e.Gap = c.Gap
	}
	return nil
}

// count reads a counter's file a moment later; programs that do not count have none.
func (l *lab) count(ctx context.Context, name string) (counter.Count, error) {
	if len(l.spec.Containers[name].Command) > 0 {
		return counter.Count{}, fmt.Errorf("%s does not count", name)
	}
	if err := l.wait(ctx, 3*counter.Tick); err != nil {
		return counter.Count{}, err
	}
	c, err := l.Node(l.place(ctx, name)).Count(ctx, name)
	if err == nil {
		l.mu.Lock()
		l.gaps[name] = c.Gap
		l.mu.Unlock()
	}
	return c, err
}

// checkpoint freezes a container, packs its checkpoint, and brings it back.
func (l *lab) checkpoint(ctx context.Context, name string, e *Event) error {
	n := l.agents[l.place(ctx, name)]
	c, err := n.Describe(ctx, name)
	if err != nil {
		return err
	}
	o := migrate.MoveSpec{Move: l.id(), Container: c, From: n.Name(), To: n.Name(), Approach: migrate.ApproachLayer}
	e.Memory = c.MemoryBytes
	r := migrate.Result{Move: o.Move, State: wire.MoveRolledBack}
	do := func(step string, f func() (migrate.StepOutcome, error)) error {
		began := time.Now()
		out, err := f()
		r.Steps = append(r.Steps, migrate.Progress{Move: o.Move, Node: n.Name(), Step: step, Done: true, Outcome: out, Duration: time.Since(began)})
		return err
	}
	err = do("freeze", func() (migrate.StepOutcome, error) { return n.Do(ctx, move.Freeze, o) })
	if err == nil {
		p := migrate.Part{Kind: migrate.PartCheckpoint}
		err = do("send checkpoint", func() (migrate.StepOutcome, error) { return n.Send(ctx, p, o, io.Discard) })
	}
	err = errors.Join(err, do("thaw", func() (migrate.StepOutcome, error) { return n.Do(ctx, move.Thaw, o) }))
	e.Migration = &r
	return err
}
