// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"weir/internal/api"
	"weir/internal/base/verdict"
	"weir/internal/core/policy"
	"weir/internal/core/wire"
)

// subject returns the name of the expectation's object, for people.
func (e Expectation) subject() string { return cmp.Or(e.Container, e.Label, "the cluster") }

// finding is the outcome of an expectation, or of one condition in it.
type finding struct {
	figure string // what was measured; "" = nothing was
	wrong  string // why it does not hold; "" = it holds
}

// verdict is the finding on the expectation number i of the file.
func (s *Spec) verdict(i int, f finding) verdict.Verdict {
	v := verdict.Verdict{Scenario: s.Name, File: s.File, Line: s.entries[i].Line, Expect: s.entries[i].Text, Check: s.Expect[i].check(), Figure: f.figure}
	if f.wrong != "" {
		v.Failures = []string{fmt.Sprintf("%s:%d: %s: %s", v.File, v.Line, s.Expect[i].subject(), f.wrong)}
	}
	return v
}

// check names what an expectation is about, by its keys.
func (e Expectation) check() string {
	var keys []string
	for key, given := range map[string]bool{"on": e.On != "", "exact": e.Exact, "downtime": e.Downtime > 0, "s": e.S != nil, "rate": e.Measure != ""} {
		if given {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// check compares an expectation with the events seen and the present state.
func (l *lab) check(ctx context.Context, e Expectation) finding {
	switch {
	case e.Label != "":
		l.mu.Lock()
		defer l.mu.Unlock()
		return slowest(l.moved, e)
	case e.S != nil:
		return l.checkS(ctx, *e.S)
	}
	var all finding
	for _, c := range []struct {
		asked bool
		check func(context.Context, Expectation) finding
	}{{e.On != "", l.checkPlace}, {e.Measure != "", l.checkRate}, {e.Exact || e.Downtime > 0, l.checkCounter}} {
		if !c.asked {
			continue
		}
		f := c.check(ctx, e)
		all.figure = strings.TrimPrefix(all.figure+", "+f.figure, ", ")
		all.wrong = cmp.Or(all.wrong, f.wrong)
	}
	return all
}

// checkPlace looks for the container on each node.
func (l *lab) checkPlace(ctx context.Context, e Expectation) finding {
	var at []string
	for _, n := range l.Nodes() {
		names, err := n.Running(ctx)
		if err != nil {
			return finding{wrong: err.Error()}
		}
		if slices.Contains(names, e.Container) {
			at = append(at, n.Name)
		}
	}
	f := finding{figure: "on " + cmp.Or(strings.Join(at, " and "), "no node")}
	if !slices.Equal(at, []string{e.On}) {
		f.wrong = fmt.Sprintf("it runs %s, not on %s alone", f.figure, e.On)
	}
	return f
}

// checkRate holds what arrived of a container in a measurement against the limits.
func (l *lab) checkRate(_ context.Context, e Expectation) finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.rates[e.Measure], func(r Rate) bool { return r.Container == e.Container })
	if i < 0 {
		return finding{wrong: fmt.Sprintf("nothing of it arrived in measurement %q", e.Measure)}
	}
	got := l.rates[e.Measure][i].Bps
	least, _ := policy.ParseRate(cmp.Or(e.AtLeast, "none")) // checked by the parser
	most, _ := policy.ParseRate(cmp.Or(e.AtMost, "none"))
	f := finding{figure: fmt.Sprintf("%.2f Mbit/s", got/1e6)}
	switch {
	case e.AtLeast != "" && got < float64(least):
		f.wrong = fmt.Sprintf("in measurement %q it got %s, not %v", e.Measure, f.figure, least)
	case e.AtMost != "" && got > float64(most):
		f.wrong = fmt.Sprintf("in measurement %q it got %s, more than %v", e.Measure, f.figure, most)
	}
	return f
}

// checkCounter asks the container's counter what it has lost, and for how long it stood
// still.
func (l *lab) checkCounter(ctx context.Context, e Expectation) finding {
	c, err := l.count(ctx, e.Container)
	if err != nil {
		return finding{wrong: err.Error()}
	}
	gap := c.Gap.Round(time.Millisecond)
	f := finding{figure: fmt.Sprintf("count %d to %d, no number missing", c.First, c.Last)}
	if e.Downtime > 0 {
		f.figure = fmt.Sprintf("stood still for %v at most", gap)
	}
	switch {
	case e.Exact && (c.First != 0 || c.Starts != 1):
		f.wrong = fmt.Sprintf("it began %d times", c.Starts)
		f.figure = f.wrong
	case e.Downtime > 0 && c.Gap > e.Downtime:
		f.wrong = fmt.Sprintf("it stood still for %v", gap)
	}
	return f
}

// slowest holds the longest downtime of the migrations with the expectation's label
// against what it allows. A migration that did not succeed has no downtime.
func slowest(moved []Event, e Expectation) finding {
	found := false
	var worst time.Duration
	for _, m := range moved {
		if m.Label != e.Label {
			continue
		}
		if m.Migration == nil || m.Migration.State != wire.MoveDone {
			return finding{wrong: fmt.Sprintf("the migration of %s to %s failed: %s", m.Subject, m.To, m.Err)}
		}
		found, worst = true, max(worst, m.Migration.Downtime)
	}
	if !found {
		return finding{wrong: "no migration with this label was made"}
	}
	f := finding{figure: fmt.Sprintf("down for %v", worst.Round(time.Millisecond))}
	if worst > e.Downtime {
		f.wrong = fmt.Sprintf("%s, expected at most %v", f.figure, e.Downtime)
	}
	return f
}

// checkS asks the manager for the S of the cluster as it is now.
func (l *lab) checkS(ctx context.Context, most float64) finding {
	text, err := l.plane.weir(ctx, "", "plan", "-o", "json")
	if err != nil {
		return finding{wrong: fmt.Sprintf("weir plan: %v: %s", err, text)}
	}
	var plan api.ClusterPlan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return finding{wrong: fmt.Sprintf("weir plan: %v", err)}
	}
	f := finding{figure: fmt.Sprintf("S %.4g", plan.Before.S)}
	if plan.Before.S > most {
		f.wrong = fmt.Sprintf("S is %.4g, expected at most %.4g", plan.Before.S, most)
	}
	return f
}
