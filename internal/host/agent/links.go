// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"weir/internal/config"
	"weir/internal/core/plan"
	"weir/internal/core/policy"
	"weir/internal/host/agent/decide"
	"weir/internal/host/agent/record"
	"weir/internal/host/dataplane"
)

// links are all links of the agent, in the configuration's order. They belong to the agent's
// goroutine.
type links []*link

// named returns the link with a name, nil if there is none; that of a device's egress is the
// device's.
func (ls links) named(name string) *link {
	i := slices.IndexFunc(ls, func(l *link) bool { return l.config.Name() == name })
	if i < 0 {
		return nil
	}
	return ls[i]
}

// follow has links whose name another device has now, or none, opened anew, and says whether
// there are such.
func (ls links) follow(index func(device string) int) (changed bool) {
	for _, l := range ls {
		i, known := index(l.config.Device), l.index
		if i == known {
			continue
		}
		l.index = i
		if known == 0 && l.backend != nil && l.err == nil {
			continue // it was opened before the message of its device came
		}
		l.close()
		l.dirty, changed = true, true
		l.again.Succeeded()
	}
	return changed
}

// twice returns an error where a link that is to be opened names the device of another.
func (ls links) twice(l *link) error {
	for _, o := range ls {
		if o != l && o.backend != nil && l.index != 0 && o.index == l.index &&
			o.config.Direction == l.config.Direction && o.config.Zone == l.config.Zone {
			return fmt.Errorf("link %s: %s is another name of the device of link %s; remove one of the two from links",
				l.config.Name(), l.config.Device, o.config.Name())
		}
	}
	return nil
}

// hopeless returns why no link can be steered, if waiting will not cure that.
func (ls links) hopeless() error {
	hope := func(l *link) bool { return l.err == nil || errors.Is(l.err, dataplane.ErrNoDevice) }
	if len(ls) == 0 || slices.ContainsFunc(ls, hope) {
		return nil
	}
	return ls[0].err
}

// complain logs the problems of links, once each.
func (ls links) complain() {
	for _, l := range ls {
		l.complain()
	}
}

// abilities returns what the links' backends hold, of those that lack something, by the links'
// names; of a link that is not steered, what its backend held last.
func (ls links) abilities() map[string]dataplane.Abilities {
	known := map[string]dataplane.Abilities{}
	for _, l := range ls {
		if l.backend != nil {
			l.abilities = l.backend.Abilities()
		}
		if l.abilities != (dataplane.Abilities{}) {
			known[l.config.Name()] = l.abilities
		}
	}
	return known
}

// slowest returns the lowest rate of egress of a link, 0 if there is none; that of ingress has the
// same rate of egress.
func (ls links) slowest() (rate policy.Rate) {
	for _, l := range ls {
		if r := l.config.Egress; r != 0 && (rate == 0 || r < rate) {
			rate = r
		}
	}
	return rate
}

// want takes the wanted state.
func (ls links) want(plans map[string]plan.State) {
	for _, l := range ls {
		if want, ok := plans[l.config.Name()]; ok {
			l.wants(want)
		}
	}
}

// changes returns what the kernel would be told if a decision came into force.
func (ls links) changes(d decide.Decision, why decide.Reasons) []decide.PlannedChange {
	var all []decide.PlannedChange
	for _, l := range ls {
		want := l.pacer.Paced(d.Plans[l.config.Name()])
		list := decide.Explained(plan.Brief(plan.Diff(l.want, want), l.want, want), l.config.Name(), d, why)
		if l.backend == nil {
			list = decide.Awaiting(list)
		}
		all = append(all, list...)
	}
	return all
}

// unopened returns the links that have no backend.
func (ls links) unopened() links {
	return slices.DeleteFunc(slices.Clone(ls), func(l *link) bool { return l.backend != nil })
}

// relink returns the links that next names: those that exist already, with their new
// configuration, and new ones. A link that next does not name is given back as it was found.
func (ls links) relink(ctx context.Context, next []config.Link, make func(config.Link) *link, r record.Recorder) links {
	var all links
	for _, c := range next {
		l := ls.named(c.Name())
		if l == nil {
			l = make(c)
		}
		if more := c.Force && !l.config.Force || c.Switch && !l.config.Switch; more && l.backend == nil {
			l.again.Succeeded() // what was refused may succeed now
		}
		if l.config.IngressLocal != c.IngressLocal || !reflect.DeepEqual(l.config.Area(), c.Area()) {
			l.close() // its backend was opened with that
		}
		l.config = c
		all = append(all, l)
	}
	for _, l := range ls {
		if !slices.Contains(all, l) {
			l.giveBack(ctx)
			r.Link("give-back", l.config.Name(), "neither the configuration nor a switch names it any longer")
		}
	}
	return all
}
