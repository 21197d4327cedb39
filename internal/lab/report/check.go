// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"time"

	"weir/internal/lab/scenario"
	"weir/internal/policy"
)

// check returns a line for each expectation that does not hold.
func (r *Result) check() []string {
	var failures []string
	for _, e := range r.Scenario.Expect {
		for _, p := range r.Phases {
			if e.Phase != 0 && e.Phase != p.Number || e.Scheduler != "" && e.Scheduler != r.Scheduler {
				continue
			}
			for _, problem := range p.violations(e) {
				failures = append(failures, fmt.Sprintf("%s:%d: phase %d, %s", r.Scenario.File, e.Line, p.Number, problem))
			}
		}
	}
	return failures
}

// expected is how many expectations are meant for this scheduler.
func (r *Result) expected() int {
	n := 0
	for _, e := range r.Scenario.Expect {
		if e.Scheduler == "" || e.Scheduler == r.Scheduler {
			n++
		}
	}
	return n
}

// violations of one expectation in one phase.
func (p Phase) violations(e scenario.Expectation) []string {
	var list []string
	add := func(problem string) {
		if problem != "" {
			list = append(list, problem)
		}
	}
	switch e.Check {
	case scenario.CheckUtilisation:
		if p.Link.Utilisation < e.Value {
			add(fmt.Sprintf("link: utilisation %.2f %%, expected at least %.2f %%", p.Link.Utilisation*100, e.Value*100))
		}
		return list
	case scenario.CheckReaction:
		if p.Link.ReactionWindowMs != nil && p.Link.ReactionMs == nil {
			add("link: the new shares never hold, expected within " + millis(e.Value*1000))
			return list
		}
		add(atMost("link: reaction", p.Link.ReactionMs, e.Value*1000, millis))
		return list
	case scenario.CheckDrops:
		add(atMost("link: drops", float(p.Link.Drops), e.Value, whole))
		return list
	}
	for i, w := range p.Workloads {
		if e.Workload < 0 || e.Workload == i {
			add(w.violation(e))
		}
	}
	return list
}

func (w Workload) violation(e scenario.Expectation) string {
	if e.Flow != "" || e.Queue != "" {
		return w.insideViolation(e)
	}
	switch e.Check {
	case scenario.CheckRate:
		want := e.Value
		if e.Ideal {
			want = w.IdealBps
		}
		return missed(w.Workload, w.RateBps, want, e)
	case scenario.CheckGoodput:
		if w.GoodputBps == nil {
			return w.Workload + ": goodput was not measured"
		}
		return missed(w.Workload+": goodput", *w.GoodputBps, e.Value, e)
	case scenario.CheckSettle:
		if w.Overshoot == nil && e.Workload < 0 {
			return "" // it has no reservation that began or changed in this phase
		}
		return atMost(w.Workload+": settling time", w.SettleS, e.Value, number(2))
	case scenario.CheckOvershoot:
		return w.atMost(e, "overshoot", w.Overshoot, e.Value, percent)
	case scenario.CheckDisturbance:
		return w.atMost(e, "disturbance", w.Disturbance, e.Value, percent)
	case scenario.CheckRecovery:
		return w.atMost(e, "recovery", w.RecoveryS, e.Value, number(0))
	case scenario.CheckBounds:
		margin := float64(e.Within.Rate)
		switch {
		case w.RateBps < w.floor-margin:
			return fmt.Sprintf("%s: rate %s is below its min of %s", w.Workload, policy.Approx(w.RateBps), policy.Approx(w.floor))
		case w.RateBps > w.ceiling+margin:
			return fmt.Sprintf("%s: rate %s is above its max of %s", w.Workload, policy.Approx(w.RateBps), policy.Approx(w.ceiling))
		}
		return ""
	case scenario.CheckRTT50:
		return w.atMost(e, "rtt p50", w.RTT.P50, e.Value*1000, millis)
	case scenario.CheckRTT99:
		return w.atMost(e, "rtt p99", w.RTT.P99, e.Value*1000, millis)
	case scenario.CheckJitter:
		return w.atMost(e, "jitter", w.JitterMs, e.Value*1000, millis)
	default: // scenario.CheckLoss
		return w.atMost(e, "loss", w.Loss, e.Value, percent)
	}
}

// missed says by how much a rate is off, "" if it is within the margin.
func missed(name string, rate, want float64, e scenario.Expectation) string {
	off, margin := math.Abs(rate-want), e.Within.Of(want)
	if off <= margin {
		return ""
	}
	return fmt.Sprintf("%s: rate %s, expected %s within %s, off by %s", name,
		policy.Approx(rate), policy.Approx(want), policy.Approx(margin), policy.Approx(off))
}

// atMost is the package's atMost, where an expectation on all workloads is not
// about those of which nothing was measured.
func (w Workload) atMost(e scenario.Expectation, what string, got *float64, limit float64, write func(float64) string) string {
	if got == nil && e.Workload < 0 {
		return ""
	}
	return atMost(w.Workload+": "+what, got, limit, write)
}

// atMost says how got exceeds limit, "" if it does not. What was not measured
// does not hold.
func atMost(what string, got *float64, limit float64, write func(float64) string) string {
	switch {
	case got == nil:
		return fmt.Sprintf("%s was not measured, expected at most %s", what, write(limit))
	case *got > limit:
		return fmt.Sprintf("%s %s, expected at most %s", what, write(*got), write(limit))
	}
	return ""
}

func millis(v float64) string {
	return (time.Duration(v*1000) * time.Microsecond).String()
}
func percent(v float64) string { return fmt.Sprintf("%.3f %%", v*100) }
func whole(v float64) string   { return fmt.Sprintf("%.0f", v) }

func float(v *uint64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v)
	return &f
}
