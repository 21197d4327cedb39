// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"weir/internal/core/policy"
	"weir/internal/lab/report"
)

// The steps of a timeline that are about agents and traffic.

// awaitLimit is how long something may take that is awaited.
const awaitLimit = time.Minute

// fail makes a step that did not do as it should one of the run's failures.
func (l *lab) fail(st TimelineStep, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, Failure{st.subject(), err.Error()})
	return err
}

// subject returns the name of the step's object, for people.
func (st TimelineStep) subject() string {
	return strings.TrimSpace(st.verbs()[0] + " " + cmp.Or(st.Weir, st.Await, st.Migrate, st.KillAgent, st.StartAgent, st.Manager, st.Journal, st.Label))
}

// caption marks a step in the picture.
func (l *lab) caption(st TimelineStep) {
	if st.Label == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.captions = append(l.captions, caption{time.Now(), st.Label})
}

// weir runs a command as a user would.
func (l *lab) weir(ctx context.Context, st TimelineStep, e *Event) error {
	e.Subject = st.Weir
	var err error
	e.Output, err = l.plane.weir(ctx, st.On, strings.Fields(st.Weir)...)
	status := 0
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		status = ended.ExitCode()
	case err != nil:
		return err
	}
	if status != st.Exit {
		return l.fail(st, fmt.Errorf("exit status %d, not %d: %s", status, st.Exit, strings.TrimSpace(e.Output)))
	}
	return nil
}

// await waits until a container runs on a node, with its min.
func (l *lab) await(ctx context.Context, st TimelineStep) error {
	limit := cmp.Or(st.Within, awaitLimit)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var min policy.Rate
	if st.Min != "" {
		var err error
		if min, err = policy.ParseRate(st.Min); err != nil {
			return err
		}
	}
	err := poll(ctx, func() (bool, error) {
		names, err := l.Node(st.On).Running(ctx)
		if err != nil || !slices.Contains(names, st.Await) || l.plane.moving(st.Await) {
			return false, nil
		}
		if min == 0 {
			return true, nil
		}
		w, err := l.plane.agent(st.On).Workload(ctx, st.Await)
		return err == nil && len(w.Links) > 0 && w.Links[0].MinBps >= uint64(min), nil
	})
	if err != nil {
		return l.fail(st, fmt.Errorf("%s does not run on %s as it should within %v", st.Await, st.On, limit))
	}
	l.caption(st)
	return nil
}

// measure notes what arrives of each container's traffic for a time.
func (l *lab) measure(ctx context.Context, st TimelineStep, e *Event) error {
	e.Subject, e.For = st.Label, st.Measure
	before, began := l.traffic.totals()
	if err := l.wait(ctx, st.Measure); err != nil {
		return err
	}
	after, ended := l.traffic.totals()
	for _, name := range l.senders() {
		rate := float64(after[name]-before[name]) * 8 / ended.Sub(began).Seconds()
		if after[name] > 0 {
			e.Rates = append(e.Rates, Rate{name, rate})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rates[st.Label] = e.Rates
	return nil
}

// senders are the containers that send, in order.
func (l *lab) senders() (names []string) {
	for name, c := range l.spec.Containers {
		if c.Send != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// draw makes the picture of the traffic.
func (l *lab) draw() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic.plot(l.Plot, report.FileName(cmp.Or(l.spec.File, "cluster")), l.spec.Name, l.senders(), l.captions)
}
