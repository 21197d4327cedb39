// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/internal/cluster/move"
	"weir/internal/core/wire"
)

// Progress is a report of Run about a step that goes on.
type Progress struct {
	Move     string        `json:"move"`
	Node     string        `json:"node"`
	Step     string        `json:"step"`
	Done     bool          `json:"done"`
	Outcome  StepOutcome   `json:"outcome"`
	Duration time.Duration `json:"duration_ns"` // so far, or in all
	Down     bool          `json:"down"`        // the container does not run meanwhile
	Err      string        `json:"error,omitempty"`
}

// Result says how a migration ended.
type Result struct {
	Move     string         `json:"move"`
	State    wire.MoveState `json:"state"`
	Steps    []Progress     `json:"steps"`
	Bytes    int64          `json:"bytes"`              // that crossed the network in all steps
	Downtime time.Duration  `json:"downtime_ns"`        // from the order to freeze to the answer that it runs again, here or there
	Duration time.Duration  `json:"duration_ns"`        // of all
	Err      string         `json:"error,omitempty"`    // why it was rolled back
	Warning  string         `json:"warning,omitempty"`  // e.g. what could not be cleaned up
	Approach Approach       `json:"approach,omitempty"` // that was taken
}

// Timeouts of single calls. What travels in parts is watched by its progress instead,
// see stall.
const (
	stepTimeout  = 2 * time.Minute
	imageTimeout = 30 * time.Minute
	stall        = 20 * time.Second // without a byte: the network is cut
	// progressEvery is the time between two reports about a part that travels.
	progressEvery = 5 * time.Second
)

// run is one migration under way.
type run struct {
	MoveSpec
	source, target Node
	journal        *Journal
	report         func(Progress)
	began          time.Time
	frozen         time.Time // zero while the container runs
	result         Result
}

// Run carries out an order that a pre-flight has approved (see Check). Everything
// that is done is first written to the journal, which the caller closes. report is
// told about each step; it may be nil.
//
// An error means that the journal is unfinished: Resume goes on with it. Otherwise the
// result says where the container runs. Journal.Cancel calls it off while that is
// possible.
func Run(ctx context.Context, source, target Node, j *Journal, report func(Progress)) (Result, error) {
	m := newRun(source, target, j, report)
	steps, done := j.cancellable(ctx)
	err := m.forward(steps)
	done()
	if why := j.cancelled(); err != nil && why != nil {
		err = why
	}
	if err != nil {
		return m.back(ctx, err)
	}
	return m.confirm(ctx)
}

// Resume goes on with a migration that was interrupted: back to the source if the
// target was not confirmed, else forward.
func Resume(ctx context.Context, source, target Node, j *Journal, report func(Progress)) (Result, error) {
	m := newRun(source, target, j, report)
	switch j.Phase() {
	case PhaseForward:
		return m.back(ctx, errors.New("it was interrupted"))
	case PhaseConfirming:
		return m.confirm(ctx)
	case PhaseForgetting:
		return m.forget(ctx)
	case PhaseBack:
		return m.back(ctx, errors.New("it was interrupted while it was rolled back"))
	case PhaseDiscarding:
		return m.discardLater(ctx)
	case PhaseOver:
	}
	return m.result, nil
}

func newRun(source, target Node, j *Journal, report func(Progress)) *run {
	if report == nil {
		report = func(Progress) {}
	}
	o := j.Order()
	m := &run{MoveSpec: o, source: source, target: target, journal: j, report: report, began: time.Now(),
		frozen: j.frozen(), result: Result{Move: o.Move, State: wire.MoveRunning, Approach: o.Approach}}
	for _, r := range j.Entries() { // of a life before this one
		m.result.Downtime = max(m.result.Downtime, r.Downtime)
		if r.Kind == KindRollback {
			m.result.Err = r.Err
		}
	}
	return m
}

// forward takes all steps up to the copy's being there on probation.
func (m *run) forward(ctx context.Context) error {
	early, late := m.steps()
	if err := m.image(ctx); err != nil {
		return err
	}
	for _, step := range early {
		if err := step(ctx); err != nil {
			return err
		}
	}
	m.frozen = time.Now()
	if err := m.do(ctx, m.source, move.Freeze, stepTimeout); err != nil {
		return err
	}
	for _, step := range late {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := m.do(ctx, m.target, move.Restore, m.Lease); err != nil {
		return err
	}
	return nil
}

// steps returns the steps before the container is frozen, and the steps while it is.
func (m *run) steps() (early, late []func(context.Context) error) {
	on := func(n Node, s move.Step, limit time.Duration) func(context.Context) error {
		return func(ctx context.Context) error { return m.do(ctx, n, s, limit) }
	}
	part := func(kind PartKind, name string) func(context.Context) error {
		return func(ctx context.Context) error { return m.transfer(ctx, Part{kind, name}) }
	}
	create := on(m.target, move.Create, stepTimeout)
	ahead := func() {
		if m.PreCopy {
			early = append(early, func(ctx context.Context) error {
				if m.do(ctx, m.source, move.PreCopy, stepTimeout) != nil {
					return nil // it only takes longer without
				}
				return m.transfer(ctx, Part{Kind: PartMemory})
			})
		}
	}
	switch m.Approach {
	case ApproachBundle:
		ahead()
		return early, append(late, part(PartArchive, ""))
	case ApproachExport:
		late = append(late, part(PartExport, ""), create)
	case ApproachCommit:
		late = append(late, on(m.source, move.Commit, stepTimeout), on(m.source, move.Push, imageTimeout), on(m.target, move.Pull, imageTimeout), create)
	case ApproachLayer, ApproachAuto:
		early = append(early, create)
		ahead()
		late = append(late, part(PartLayer, ""))
	}
	for _, v := range m.Container.Volumes {
		late = append(late, part(PartVolume, v.Name))
	}
	return early, append(late, part(PartCheckpoint, ""))
}

// image brings the container's image to the target, by the registry if there is one,
// while the container runs.
func (m *run) image(ctx context.Context) error {
	if m.Approach == ApproachExport {
		return nil // it travels with the file system
	}
	if m.Approach == ApproachCommit && m.Registry != "" {
		// All of it is to be in the registry before anything is frozen: the committed layer
		// goes on top of it.
		if err := m.do(ctx, m.source, move.PushImage, imageTimeout); err != nil {
			return err
		}
		return m.do(ctx, m.target, move.PullImage, imageTimeout)
	}
	err := m.do(ctx, m.target, move.PullImage, imageTimeout)
	if move.CodeOf(err) != move.CodeNoImage {
		return err
	}
	if m.Registry == "" || m.Approach == ApproachBundle {
		return m.transfer(ctx, Part{Kind: PartImage})
	}
	if err := m.do(ctx, m.source, move.PushImage, imageTimeout); err != nil {
		return err
	}
	return m.do(ctx, m.target, move.PullImage, imageTimeout)
}

// do has a node take a step.
func (m *run) do(ctx context.Context, n Node, step move.Step, limit time.Duration) error {
	return m.take(n, string(step), func() (StepOutcome, error) {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		out, err := n.Do(ctx, step, m.MoveSpec)
		if err == nil {
			m.remember(step, out)
		}
		return out, err
	})
}

// remember keeps which image the source has made, for the target to take that one.
func (m *run) remember(step move.Step, out StepOutcome) {
	switch step {
	case move.Commit:
		m.Committed = &Committed{ImageID: out.ImageID}
	case move.Push:
		if m.Committed != nil {
			m.Committed.Digest = out.Digest
		}
	}
}

// transfer sends a part from the source to the target.
func (m *run) transfer(ctx context.Context, p Part) error {
	began := time.Now()
	progress := func(bytes int64) {
		m.report(Progress{Move: m.Move, Node: m.target.Name(), Step: "send " + p.String(), Down: !m.frozen.IsZero(),
			Outcome: StepOutcome{Bytes: bytes}, Duration: time.Since(began)})
	}
	return m.take(m.target, "send "+p.String(), func() (StepOutcome, error) { return pipe(ctx, m.source, m.target, p, m.MoveSpec, progress) })
}

// take writes a step down, takes it, and writes down what came of it.
func (m *run) take(n Node, step string, f func() (StepOutcome, error)) error {
	if err := m.journal.Append(JournalEntry{Kind: KindStep, Node: n.Name(), Step: step}); err != nil {
		return err
	}
	r, err := m.tell(n, step, f)
	m.result.Bytes += max(r.Outcome.Bytes, 0)
	if journalErr := m.journal.Append(r); err == nil && journalErr != nil {
		return journalErr
	}
	if err != nil && move.CodeOf(err) != move.CodeNoImage {
		return fmt.Errorf("%s: %w", step, err)
	}
	return err
}

// tell takes a step, reports it, and returns what the journal is to say of it.
func (m *run) tell(n Node, step string, f func() (StepOutcome, error)) (JournalEntry, error) {
	p := Progress{Move: m.Move, Node: n.Name(), Step: step, Down: !m.frozen.IsZero()}
	m.report(p)
	began := time.Now()
	out, err := f()
	p.Done, p.Outcome, p.Duration = true, out, time.Since(began)
	r := JournalEntry{Kind: KindDone, Node: n.Name(), Step: step, Outcome: &out, Duration: p.Duration}
	if err != nil {
		r.Kind, r.Err, p.Err = KindFailed, err.Error(), err.Error()
	}
	m.report(p)
	m.result.Steps = append(m.result.Steps, p)
	return r, err
}

// pipe connects what one node sends with what the other receives. Either's failure
// ends both, and so does a stream that stands still. progress is told now and then how
// many bytes were sent, never after pipe has returned.
func pipe(ctx context.Context, source, target Node, p Part, o MoveSpec, progress func(bytes int64)) (StepOutcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, w := io.Pipe()
	watched := &watchdog{w: w, progress: progress, told: time.Now(), timer: time.AfterFunc(stall, func() {
		cancel(fmt.Errorf("no byte of %s for %s", p, stall))
	})}
	defer watched.timer.Stop()
	sent := make(chan error, 1)
	go func() {
		_, err := source.Send(ctx, p, o, watched)
		w.CloseWithError(err) // nil: the end
		sent <- err
	}()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	defer stop()
	out, err := target.Receive(ctx, p, o, r)
	r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	sendErr := <-sent
	switch cause := context.Cause(ctx); {
	case cause != nil:
		return out, cause
	case sendErr != nil && (err == nil || !errors.Is(sendErr, io.ErrClosedPipe)):
		return out, sendErr // the receiver only knows that it has ended
	}
	return out, err
}

// watchdog lets a clock run out when nothing is written.
type watchdog struct {
	w        io.Writer
	timer    *time.Timer
	progress func(bytes int64)
	bytes    int64
	told     time.Time // when progress was called last
}

func (d *watchdog) Write(p []byte) (int, error) {
	d.timer.Reset(stall)
	n, err := d.w.Write(p)
	d.bytes += int64(n)
	if now := time.Now(); now.Sub(d.told) >= progressEvery {
		d.told = now
		d.progress(d.bytes)
	}
	return n, err
}
