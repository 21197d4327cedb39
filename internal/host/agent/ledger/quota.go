// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"math"
	"time"

	"weir/internal/api"
	"weir/internal/core/event"
	"weir/internal/core/policy/quota"
	"weir/internal/core/policy/times"
)

// limits is a quota that is reached, and where.
type limits struct {
	quota.Quota
	quota.Reach
}

// reached returns the quotas that are reached, by key.
func reached(standings map[string]quota.Standing) map[string]limits {
	all := map[string]limits{}
	for key, s := range standings {
		if r := s.Reach(); r.Any() {
			all[key] = limits{s.Quota, r}
		}
	}
	return all
}

// SameReached reports whether the same quotas are reached in both.
func SameReached(x, y map[string]quota.Standing) bool { return maps.Equal(reached(x), reached(y)) }

// tolerance is the part of a quota by which its end may be missed because counters are read
// from time to time. The agent's delay in acting on it comes on top.
const tolerance = 0.001

// shortest is the shortest time between two readings.
const shortest = 2 * time.Millisecond

// notAtAll is longer than the second after which counters are read in any case.
const notAtAll = time.Minute

// Again returns when counters have to be read next so that no quota is passed by more than the
// tolerance at a rate of bps: a second or less, or where nothing can be passed, notAtAll.
func Again(standings map[string]quota.Standing, bps uint64) time.Duration {
	next := notAtAll
	for _, s := range standings {
		left, of := s.Left(s.Sent, s.Received)
		if of == 0 || s.Then == quota.ThenTell || bps == 0 {
			continue
		}
		seconds := 8 * (float64(left) + tolerance*float64(of)) / float64(bps)
		next = min(next, time.Duration(math.Min(seconds, 1)*float64(time.Second)))
	}
	return max(next, shortest)
}

// View returns a standing as the API shows it.
func View(s quota.Standing) *api.QuotaStanding {
	left, _ := s.Left(s.Sent, s.Received)
	v := &api.QuotaStanding{Since: s.Start.UTC(), Until: s.End.UTC(), SentBytes: s.Sent, ReceivedBytes: s.Received, UsedPart: s.Part(s.Sent, s.Received),
		LeftBytes: uint64(left), State: api.QuotaWithin, InForce: s.InForce(), Text: s.Text()}
	switch {
	case s.Reach().Any():
		v.State = api.QuotaReached
	case v.UsedPart >= quota.WarnAt:
		v.State = api.QuotaNear
	}
	return v
}

// Sight returns a standing as events follow from it.
func Sight(s quota.Standing) event.Quota {
	q := event.Quota{Part: s.Part(s.Sent, s.Received), Reached: s.Reach().Any(), Until: s.End}
	if q.Reached {
		q.InForce = s.InForce()
	}
	return q
}

// Noted returns a note with a few words about a quota, none while less than WarnAt is used.
func Noted(note string, q *api.QuotaStanding) string {
	words := ""
	switch {
	case q == nil:
	case q.State == api.QuotaReached:
		words = fmt.Sprintf("quota reached: %s until %s", q.InForce, times.Text(q.Until))
	case q.State == api.QuotaNear:
		words = fmt.Sprintf("%.0f %% of its quota are used", math.Floor(100*q.UsedPart))
	}
	if note != "" && words != "" {
		return note + "; " + words
	}
	return note + words
}

// Texts returns the sentences about a quota, none if there is none.
func Texts(q *api.QuotaStanding) []string {
	if q == nil {
		return nil
	}
	return []string{q.Text}
}
