// SPDX-License-Identifier: Apache-2.0

package crowd

import (
	"sync"
	"time"
)

// maxParties bounds for how many parties Rates keeps an allowance, in some 2 MiB; further ones
// share one. A core answers fewer in the second in which an allowance that is used becomes whole.
const maxParties = 16 << 10

// Rates gives each party an allowance, for something such as attempts that may fail: Burst at
// once, and one more each Every.
type Rates struct {
	Burst int
	Every time.Duration

	mu      sync.Mutex
	parties map[string]*allowance
	looked  time.Time // when allowances were last dropped
}

type allowance struct {
	left float64
	at   time.Time
}

// Has reports whether a party has something left of its allowance.
func (r *Rates) Has(party string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(party, now).left >= 1
}

// Take takes one off a party's allowance. It reports whether there was one.
func (r *Rates) Take(party string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.of(party, now)
	if a.left < 1 {
		return false
	}
	a.left--
	return true
}

// of returns the allowance of a party as it is now. The lock is held.
func (r *Rates) of(party string, now time.Time) *allowance {
	if r.parties == nil {
		r.parties = map[string]*allowance{}
	}
	a := r.parties[party]
	if a == nil && len(r.parties) >= maxParties {
		r.forget(now)
	}
	if a == nil && len(r.parties) >= maxParties {
		party = ""
		a = r.parties[party]
	}
	if a == nil {
		a = &allowance{left: float64(r.Burst), at: now}
		r.parties[party] = a
	}
	a.left = min(float64(r.Burst), a.left+float64(now.Sub(a.at))/float64(r.Every))
	a.at = now
	return a
}

// forget drops the allowances that are whole again, at most once a second.
func (r *Rates) forget(now time.Time) {
	if now.Sub(r.looked) < time.Second {
		return
	}
	r.looked = now
	for party, a := range r.parties {
		if a.left+float64(now.Sub(a.at))/float64(r.Every) >= float64(r.Burst) {
			delete(r.parties, party)
		}
	}
}
