// SPDX-License-Identifier: Apache-2.0

package planning

import (
	"fmt"
	"strings"
	"time"

	"weir/internal/cluster/optimize"
)

// Automatic has the settings for moves that the manager begins by itself. Its
// methods are functions of values.
type Automatic struct {
	Enabled    bool
	Interval   time.Duration // between two looks
	Hysteresis float64       // by what part S has to fall, 0 to 1
	Cooldown   time.Duration // for which a container that moved stays
	AtOnce     int           // moves under way at a time; holds for all moves
	PerHour    int           // moves begun in any hour
	Quiet      []Window      // in which nothing is moved
	Alpha      float64       // of the fitness
	Measure    optimize.Measure
	Above      float64 // nodes that use at most this part of everything are left alone, 0 = none
}

// DefaultAutomatic returns the setting of a manager that is told nothing.
func DefaultAutomatic() Automatic {
	return Automatic{
		Interval:   time.Minute,
		Hysteresis: 0.2,
		Cooldown:   15 * time.Minute,
		AtOnce:     2,
		PerHour:    20,
		Alpha:      optimize.DefaultAlpha,
		Above:      optimize.DefaultAbove,
	}
}

// Window is a part of every day, local time. One that ends before it begins goes
// past midnight; one that ends when it begins is the whole day.
type Window struct{ From, To time.Duration } // since midnight

// ParseWindow reads "22:00-06:00".
func ParseWindow(text string) (Window, error) {
	from, to, ok := strings.Cut(text, "-")
	var w Window
	var err error
	if ok {
		if w.From, err = clock(from); err == nil {
			w.To, err = clock(to)
		}
	}
	if !ok || err != nil {
		return w, fmt.Errorf("%q is no part of a day; write such as 22:00-06:00", text)
	}
	return w, nil
}

func clock(text string) (time.Duration, error) {
	t, err := time.Parse("15:04", strings.TrimSpace(text))
	if err != nil {
		return 0, err
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}

func (w Window) String() string {
	return fmt.Sprintf("%02d:%02d-%02d:%02d", w.From/time.Hour, w.From/time.Minute%60, w.To/time.Hour, w.To/time.Minute%60)
}

func (w Window) holds(now time.Time) bool {
	at := time.Duration(now.Hour())*time.Hour + time.Duration(now.Minute())*time.Minute
	if w.From < w.To {
		return w.From <= at && at < w.To
	}
	return at >= w.From || at < w.To
}

// QuietNow names the quiet hours that it is in, "" if it is in none.
func (a Automatic) QuietNow(now time.Time) string {
	for _, w := range a.Quiet {
		if w.holds(now) {
			return "quiet hours " + w.String()
		}
	}
	return ""
}

// Free returns how many moves may begin now, and if none, why. running is how many
// are under way or waiting; begun has the times at which the manager's own moves of
// late began.
func (a Automatic) Free(now time.Time, running int, begun []time.Time) (n int, why string) {
	if why := a.QuietNow(now); why != "" {
		return 0, why
	}
	if running >= a.AtOnce {
		return 0, fmt.Sprintf("%d moves are under way, %d at once are allowed", running, a.AtOnce)
	}
	lately := 0
	for _, t := range begun {
		if now.Sub(t) < time.Hour {
			lately++
		}
	}
	if lately >= a.PerHour {
		return 0, fmt.Sprintf("%d moves within the last hour, %d are allowed", lately, a.PerHour)
	}
	return min(a.AtOnce-running, a.PerHour-lately), ""
}

// Choose takes the first moves of a plan, as many as are free, if the whole of it is
// worth it; else it says why not. allCalm says that every node was left alone.
func (a Automatic) Choose(plan optimize.Plan, allCalm bool, free int) (take []optimize.Relocation, why string) {
	switch {
	case allCalm:
		return nil, fmt.Sprintf("no node uses more than %.0f %% of its CPU, memory or network", 100*a.Above)
	case len(plan.Moves) == 0:
		return nil, "nothing is worth a move"
	}
	before, after := plan.Before.S, plan.After.S
	if after > before*(1-a.Hysteresis) {
		return nil, fmt.Sprintf("%d moves would lower S from %.4g to %.4g, by less than %.0f %%", len(plan.Moves), before, after, 100*a.Hysteresis)
	}
	take = plan.Moves[:min(free, len(plan.Moves))]
	return take, fmt.Sprintf("%d of %d moves that lower S from %.4g to %.4g", len(take), len(plan.Moves), before, after)
}
