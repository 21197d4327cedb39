// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"weir/internal/base/verdict"
	"weir/internal/core/policy"
	"weir/internal/lab/scenario"
)

// check returns the verdict on each expectation that is meant for this scheduler. One
// that finds nothing that was measured, in no phase and of no workload, does not hold.
func (r *Result) check() []verdict.Verdict {
	var list []verdict.Verdict
	for _, e := range r.meant() {
		v := verdict.Verdict{Scenario: r.Scenario.Name, File: r.Scenario.File, Line: e.Line, Expect: e.Text, Check: string(e.Check), Scheduler: r.Scheduler, Figure: r.figure(e)}
		judged := false
		for _, p := range r.Phases {
			if e.Phase != 0 && e.Phase != p.Number {
				continue
			}
			problems, found := p.violations(e)
			judged = judged || found
			for _, problem := range problems {
				v.Fail("phase %d, %s", p.Number, problem)
			}
		}
		if !judged {
			v.Fail("%s: nothing was measured that this is about", e.Check)
		}
		list = append(list, v)
	}
	return list
}

// expects says whether one of them is of a kind.
func (r *Result) expects(c scenario.Check) bool {
	return slices.ContainsFunc(r.meant(), func(e scenario.Expectation) bool { return e.Check == c })
}

// meant are the expectations for this scheduler.
func (r *Result) meant() (list []scenario.Expectation) {
	for _, e := range r.Scenario.Expect {
		if e.Scheduler == "" || e.Scheduler == r.Scheduler {
			list = append(list, e)
		}
	}
	return list
}

// violations of one expectation in one phase; judged says whether something was measured
// that it is about.
func (p Phase) violations(e scenario.Expectation) (list []string, judged bool) {
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
		return list, true
	case scenario.CheckReaction:
		if p.Link.ReactionWindowMs != nil && p.Link.ReactionMs == nil {
			add("link: the new shares never hold, expected within " + millis(e.Value*1000))
			return list, true
		}
		add(atMost("link: reaction", p.Link.ReactionMs, e.Value*1000, millis))
		return list, true
	case scenario.CheckSteady:
		add(atMost("link: a rate is off in some window by", p.Link.Unsteady, e.Value, percent))
		return list, true
	case scenario.CheckDrops:
		add(atMost("link: drops", float(p.Link.Drops), e.Value, whole))
		return list, len(list) > 0 || p.Link.Packets > 0 // none is dropped where none is sent
	}
	for i, w := range p.Workloads {
		if e.Workload < 0 || e.Workload == i {
			problem, found := w.violation(e)
			judged = judged || found
			add(problem)
		}
	}
	return list, judged
}

// violation of one expectation by one workload, "" if there is none; judged says whether
// something was measured that the expectation is about.
func (w Workload) violation(e scenario.Expectation) (problem string, judged bool) {
	if e.Flow != "" || e.Queue != "" {
		return w.insideViolation(e)
	}
	active := w.RateBps > 0 || w.IdealBps > 0
	switch e.Check {
	case scenario.CheckRate:
		want := e.Value
		if e.Ideal {
			want = w.IdealBps
		}
		return missed(w.Workload, w.RateBps, want, e), active || !e.Ideal
	case scenario.CheckGoodput:
		if w.GoodputBps == nil {
			return w.Workload + ": goodput was not measured", true
		}
		return missed(w.Workload+": goodput", *w.GoodputBps, w.goodputWanted(e), e), true
	case scenario.CheckSettle:
		if w.Overshoot == nil && e.Workload < 0 {
			return "", false // it has no reservation that began or changed in this phase
		}
		return atMost(w.Workload+": settling time", w.SettleS, e.Value, number(2)), true
	case scenario.CheckOvershoot:
		return w.atMost(e, "overshoot", w.Overshoot, e.Value, percent)
	case scenario.CheckDisturbance:
		return w.atMost(e, "disturbance", w.Disturbance, e.Value, percent)
	case scenario.CheckRecovery:
		return w.atMost(e, "recovery", w.RecoveryS, e.Value, number(0))
	case scenario.CheckBounds:
		return w.outOfBounds(e.Within), active
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

// goodputWanted is the goodput that an expectation states, bits per second.
func (w Workload) goodputWanted(e scenario.Expectation) float64 {
	if e.Ideal {
		return w.wirePayload
	}
	return e.Value
}

// outOfBounds says by how much a workload has less than its min or more than its max, ""
// if it is within the margin of both, which as a share is a share of each.
func (w Workload) outOfBounds(margin scenario.Margin) string {
	switch {
	case w.RateBps < w.floor-margin.Of(w.floor):
		return fmt.Sprintf("%s: rate %s is below its min of %s", w.Workload, policy.Approx(w.RateBps), policy.Approx(w.floor))
	case w.RateBps > w.ceiling+margin.Of(w.ceiling):
		return fmt.Sprintf("%s: rate %s is above its max of %s", w.Workload, policy.Approx(w.RateBps), policy.Approx(w.ceiling))
	}
	return ""
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
// about those which do nothing in this phase by which it could be measured.
func (w Workload) atMost(e scenario.Expectation, what string, got *float64, limit float64, write func(float64) string) (problem string, judged bool) {
	if got == nil && e.Workload < 0 && !w.shows[e.Check] {
		return "", false
	}
	return atMost(w.Workload+": "+what, got, limit, write), true
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
