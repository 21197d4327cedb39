// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"slices"
	"time"

	"weir/internal/api"
	"weir/internal/core/event"
	"weir/internal/core/workload"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/decide/gap"
	"weir/internal/host/agent/ledger"
	"weir/internal/host/dataplane"
)

// look returns what there is to see at a moment, and the events that follow from it, when all but
// the stream have been told.
func (m moment) look(a *Agent, now time.Time) (event.Sight, []event.Event) {
	s := m.sight(a, now)
	for _, l := range m.links {
		l.repaired = ""
	}
	return s, a.teller.Look(s, m.World.Config.Tell.Drops)
}

// observers are what other parts of the program look for.
type observers struct{ looks []func(*event.Sight) }

// Observe has look add to what events and problems follow from, at each look. It is called before
// Run; look is called by the agent's goroutine and has to return at once.
func (o *observers) Observe(look func(*event.Sight)) { o.looks = append(o.looks, look) }

// sight returns what events and problems follow from.
func (m moment) sight(a *Agent, now time.Time) event.Sight {
	c := m.World.Config
	s := event.Sight{At: now, ConfigFile: c.Path, ConfigError: a.file.Wrong, RestartDue: slices.Concat(a.file.Late, a.opts.Late()), NoLink: len(m.links) == 0, Sinks: a.teller.Sinks(),
		Objects: make([]event.Object, 0, len(m.Rulings)+len(m.Groups))}
	for _, full := range a.opts.Unwritable() {
		s.Unwritable = append(s.Unwritable, event.FolderSight{Path: full.Path, Note: full.Sentence()})
	}
	for _, source := range m.sources(a) {
		s.Sources = append(s.Sources, event.SourceSight{Name: source.Name, Lost: source.State == workload.SourceUnavailable, Note: source.Note})
	}
	s = m.over(s)
	for _, look := range a.looks {
		look(&s)
	}
	return s
}

// sources returns the sources of workloads and links as the API shows them.
func (m moment) sources(a *Agent) []api.Source {
	list := a.finder.view()
	if a.opts.PortsStatus != nil {
		state, note := a.opts.PortsStatus()
		list = append(list, api.Source{Name: "ovsdb", State: state, Note: note})
	}
	if !m.World.Config.Docker.Enabled {
		list = append(list, api.Source{Name: workload.KindDocker, State: workload.SourceOff, Note: "docker.enabled is false"})
	}
	return list
}

// over adds workloads, groups and links to a sight.
func (m moment) over(s event.Sight) event.Sight {
	for _, v := range m.Rulings {
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
func (m moment) object(kind string, v decide.Ruling) event.Object {
	o := event.Object{Type: kind, Name: v.Name, NotHeld: gap.Unaccepted(v.Gaps, gap.Gap.String)}
	for _, f := range v.Past {
		o.Past = append(o.Past, event.Past{Text: f.Text(), Remedy: f.Remedy})
	}
	if v.State == workload.StateRefused {
		o.Refused = v.Note
	}
	if s, ok := m.World.Quotas[v.Key]; ok && v.Policy.Quota != nil {
		o.Quota = ledger.Sight(s)
	}
	return o
}

// sight returns the link as it stands.
func (l *link) sight(gaps []gap.Gap) event.LinkSight {
	s := event.LinkSight{Device: l.config.Place(), Direction: l.direction(), NotHeld: gap.Unaccepted(gaps, gap.Gap.WithoutLink), Repaired: l.repaired, Down: l.silent()}
	if l.err != nil {
		s.Error, s.Gone = l.err.Error(), errors.Is(l.err, dataplane.ErrNoDevice)
	}
	return s
}
