// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"

	"weir/internal/core/policy"
	"weir/internal/lab/scenario"
)

// seen is a figure that an expectation is about: the larger bad, the nearer to its
// limit, or the further beyond it.
type seen struct {
	bad  float64
	text string
}

// figure is the worst figure of all phases that an expectation is about, "" if
// nothing was measured.
func (r *Result) figure(e scenario.Expectation) string {
	var worst *seen
	for _, p := range r.Phases {
		if e.Phase != 0 && e.Phase != p.Number {
			continue
		}
		for _, s := range p.seen(e) {
			if worst == nil || s.bad > worst.bad {
				worst = &s
			}
		}
	}
	if worst == nil {
		return ""
	}
	return worst.text
}

// seen are the figures of one phase.
func (p Phase) seen(e scenario.Expectation) []seen {
	switch e.Check {
	case scenario.CheckUtilisation:
		return []seen{{-p.Link.Utilisation, percent(p.Link.Utilisation)}}
	case scenario.CheckReaction:
		if p.Link.ReactionWindowMs != nil && p.Link.ReactionMs == nil {
			return []seen{{math.Inf(1), "never"}}
		}
		return scaled(p.Link.ReactionMs, millis)
	case scenario.CheckSteady:
		return scaled(p.Link.Unsteady, percent)
	case scenario.CheckDrops:
		return scaled(float(p.Link.Drops), whole)
	}
	var list []seen
	for i, w := range p.Workloads {
		if e.Workload < 0 || e.Workload == i {
			list = append(list, w.seen(e)...)
		}
	}
	return list
}

func (w Workload) seen(e scenario.Expectation) []seen {
	rate, ideal, loss, jitter, rtt := &w.RateBps, &w.IdealBps, w.Loss, w.JitterMs, w.RTT
	if e.Flow != "" || e.Queue != "" {
		x, ok := w.part(e)
		if !ok {
			return nil
		}
		rate, ideal, loss, jitter, rtt = x.RateBps, x.IdealBps, x.Loss, x.JitterMs, x.RTT
	}
	switch e.Check {
	case scenario.CheckRate:
		if !e.Ideal {
			ideal = &e.Value
		}
		return off(rate, ideal)
	case scenario.CheckGoodput:
		return off(w.GoodputBps, ptr(w.goodputWanted(e)))
	case scenario.CheckBounds:
		return w.beyond()
	case scenario.CheckSettle:
		return scaled(w.SettleS, number(2))
	case scenario.CheckOvershoot:
		return scaled(w.Overshoot, percent)
	case scenario.CheckDisturbance:
		return scaled(w.Disturbance, percent)
	case scenario.CheckRecovery:
		return scaled(w.RecoveryS, number(0))
	case scenario.CheckRTT50:
		return scaled(rtt.P50, millis)
	case scenario.CheckRTT99:
		return scaled(rtt.P99, millis)
	case scenario.CheckJitter:
		return scaled(jitter, millis)
	}
	return scaled(loss, percent) // scenario.CheckLoss
}

// part is the flow or the queue that an expectation names.
func (w Workload) part(e scenario.Expectation) (Queue, bool) {
	for _, f := range w.Flows {
		if e.Flow == f.Flow && (e.Queue == "" || e.Queue == f.Queue) {
			q := Queue{IdealBps: f.IdealBps}
			q.add(f)
			return q, true
		}
	}
	for _, q := range w.Queues {
		if e.Flow == "" && e.Queue == q.Queue {
			return q, true
		}
	}
	return Queue{}, false
}

// off returns the distance of a rate from the wanted one, in percent of that.
func off(rate, want *float64) []seen {
	switch {
	case rate == nil || want == nil || *want == 0 && *rate == 0:
		return nil
	case *want == 0:
		return []seen{{math.Inf(1), policy.Approx(*rate) + " instead of none"}}
	}
	share := *rate / *want - 1
	return []seen{{math.Abs(share), signed(share)}}
}

// beyond returns the distance of a rate below its min or above its max, in percent of that.
func (w Workload) beyond() []seen {
	var list []seen
	if w.floor > 0 {
		if below := 1 - w.RateBps/w.floor; below > 0 {
			list = append(list, seen{below, percent(below) + " below its min"})
		}
	}
	if above := w.RateBps/w.ceiling - 1; above > 0 {
		list = append(list, seen{above, percent(above) + " above its max"})
	}
	if list == nil {
		return []seen{{0, "held"}}
	}
	return list
}

func scaled(v *float64, write func(float64) string) []seen {
	if v == nil {
		return nil
	}
	return []seen{{*v, write(*v)}}
}
