// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"strings"
	"time"

	"weir/internal/agent/decide"
	"weir/internal/agent/decide/gap"
	"weir/internal/dataplane"
	"weir/internal/event"
	"weir/internal/policy/quota"
	"weir/internal/workload"
)

// tell returns the events of a moment, when all but the stream have been told.
func (m moment) tell(now time.Time, a *Agent) []event.Event {
	s := event.Sight{At: now, ConfigFile: m.World.Config.Path, ConfigError: a.file.Wrong, RestartDue: a.file.Late}
	for _, full := range a.opts.Unwritable() {
		s.Unwritable = append(s.Unwritable, event.FolderSight{Path: full.Path, Note: full.Sentence()})
	}
	for _, source := range a.finder.view() {
		s.Sources = append(s.Sources, event.SourceSight{Name: source.Name, Lost: source.State == workload.SourceUnavailable, Note: source.Note})
	}
	return a.teller.Look(m.over(s), m.World.Config.Tell.Drops)
}

// over adds workloads, groups and links to a sight.
func (m moment) over(s event.Sight) event.Sight {
	for _, v := range m.Verdicts {
		o := m.object(event.Workload, v)
		for _, l := range m.links {
			used := l.now.Used[v.Class]
			if v.Steered && used.OfferedPackets > 0 {
				o.Losses = append(o.Losses, event.Losses{Link: l.config.Place(), Direction: l.direction(), Offered: used.OfferedPackets, Dropped: used.Lost})
			}
		}
		s.Objects = append(s.Objects, o)
	}
	for _, v := range m.Groups {
		s.Objects = append(s.Objects, m.object(event.Group, v))
	}
	for _, l := range m.links {
		s.Links = append(s.Links, l.sight(m.LinkGaps[l.config.Name()]))
	}
	return s
}

// object returns a workload or group without its packets.
func (m moment) object(kind string, v decide.Verdict) event.Object {
	o := event.Object{Type: kind, Name: v.Name, NotHeld: unaccepted(v.Gaps)}
	if v.State == workload.StateRefused {
		o.Refused = v.Note
	}
	if s, ok := m.World.Quotas[v.Key]; ok && v.Policy.Quota != nil {
		o.Quota = quotaSight(s)
	}
	return o
}

func quotaSight(s quota.Standing) event.Quota {
	q := event.Quota{Part: s.Part(s.Sent, s.Received), Reached: s.Reach().Any(), Until: s.End}
	if q.Reached {
		q.InForce = s.InForce()
	}
	return q
}

// unaccepted returns the gaps that no accept_gaps allows, as one text.
func unaccepted(gaps []gap.Gap) string {
	var texts []string
	for _, g := range gaps {
		if text := g.String(); !g.Accepted && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "; ")
}

// sight returns the link as it stands, and forgets what was repaired.
func (l *link) sight(gaps []gap.Gap) event.LinkSight {
	s := event.LinkSight{Device: l.config.Place(), Direction: l.direction(), NotHeld: unaccepted(gaps), Repaired: l.repaired, Down: l.silent()}
	if l.err != nil {
		s.Error, s.Gone = l.err.Error(), errors.Is(l.err, dataplane.ErrNoDevice)
	}
	l.repaired = ""
	return s
}
