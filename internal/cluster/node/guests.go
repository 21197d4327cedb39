// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/internal/atomicfile"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/warrant"
	"weir/internal/cluster/wire"
)

const (
	// keepGuests is for how long the end of a copy is remembered: longer than any order
	// lives.
	keepGuests = 7 * 24 * time.Hour
	// forsaken is after how long without a word a copy that never ran is discarded.
	forsaken = 24 * time.Hour
	// guestsEach is how many copies one node may have under way here.
	guestsEach = 16
)

// guest is a container that another node migrates to this one: what was granted, what
// has been done, and what became of it. It is all that this node believes; a call only
// says which step or part is meant.
type guest struct {
	Grant    wire.Grant                 `json:"grant"`
	Order    migrate.Order              `json:"order"`
	Settings wire.Change                `json:"settings,omitempty"`
	Begun    time.Time                  `json:"begun"`
	Heard    time.Time                  `json:"heard"`
	Taken    map[migrate.Step]time.Time `json:"taken,omitempty"`    // steps that have succeeded
	Received map[string]string          `json:"received,omitempty"` // parts that are whole, with their SHA-256
	Tried    bool                       `json:"tried,omitempty"`    // a restore was: nothing is received any more
	End      string                     `json:"end,omitempty"`      // endConfirmed, endDiscarded
	Copy     string                     `json:"copy,omitempty"`     // id of the container that it has become
	Applied  bool                       `json:"applied,omitempty"`  // its settings were dealt with

	doing map[string]bool
}

const (
	endConfirmed = "confirmed"
	endDiscarded = "discarded"
)

// guests are all of them. Each is a file, written before what it says is acted upon.
type guests struct {
	dir string
	mu  sync.Mutex // of the guests too; not held while the engine works
	all map[string]*guest
}

func openGuests(dir string, now time.Time) (*guests, error) {
	g := &guests{dir: dir, all: map[string]*guest{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		v := &guest{doing: map[string]bool{}}
		if err := json.Unmarshal(text, v); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		g.all[strings.TrimSuffix(filepath.Base(file), ".json")] = v
	}
	g.forget(now)
	return g, nil
}

// forget drops guests whose end is long ago: their grants have expired by far.
func (g *guests) forget(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for move, v := range g.all {
		if v.End != "" && now.Sub(v.Heard) > keepGuests {
			delete(g.all, move)
			_ = os.Remove(g.file(move))
		}
	}
}

func (g *guests) file(move string) string { return filepath.Join(g.dir, move+".json") }

// save writes a guest down. The lock is held.
func (g *guests) save(v *guest) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.Write(g.file(v.Grant.Move), text, 0o600)
}

// arrivedOf is a guest that was confirmed and whose settings were not dealt with yet.
func (g *guests) arrivedOf(move string) (guest, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.all[move]
	if v == nil || v.End != endConfirmed || v.Applied {
		return guest{}, false
	}
	return v.clone(), true
}

// applied notes that a guest's settings were dealt with.
func (g *guests) applied(move string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.all[move]
	v.Applied = true
	return g.save(v)
}

// unsettled are the moves of guests whose settings are to be dealt with.
func (g *guests) unsettled() (list []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for move, v := range g.all {
		if v.End == endConfirmed && !v.Applied {
			list = append(list, move)
		}
	}
	return list
}

// forsaken are the grants of copies of which nothing was heard for long, and that no
// probation ends since none was restored.
func (g *guests) forsaken(now time.Time) (list []wire.Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.all {
		if v.End == "" && now.Sub(v.Heard) > forsaken {
			list = append(list, v.Grant)
		}
	}
	return list
}

// A refusal with its reason is warrant's, which the helper refuses by too.
type denied = warrant.Denied

var deny = warrant.Deny

// Why a call of another node, or a message in the manager's name, was refused.
const (
	whyStranger    = warrant.WhyStranger
	whyForged      = warrant.WhyForged
	whyForeign     = warrant.WhyForeign
	whyExpired     = warrant.WhyExpired
	whyReplayed    = warrant.WhyReplayed
	whyAltered     = warrant.WhyAltered
	whyNotTarget   = warrant.WhyNotStep
	whyNotAccepted = warrant.WhyNotAccepted
	whyUnknown     = warrant.WhyUnknown
	whyTooMany     = warrant.WhyTooMany
	whySubject     = warrant.WhySubject
)

// begin notes a new guest. The same again is no harm before anything was done.
func (g *guests) begin(grant wire.Grant, p warrant.Proposal, now time.Time) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if was := g.all[grant.Move]; was != nil {
		if was.End == "" && len(was.Taken) == 0 && len(was.Received) == 0 && was.Grant.Same(grant.Manifest) {
			return nil
		}
		return deny(whyReplayed, migrate.CodeDone, "move %s was begun here at %s", grant.Move, was.Begun.Format(time.TimeOnly))
	}
	if now.After(grant.Deadline) {
		return deny(whyExpired, migrate.CodeDenied, "the grant was to be used before %s", grant.Deadline.Format(time.DateTime))
	}
	open := 0
	for _, v := range g.all {
		if v.End == "" && v.Grant.From == grant.From {
			open++
		}
	}
	if open >= guestsEach {
		return deny(whyTooMany, migrate.CodeDenied, "%d containers of %s are on their way here already", open, grant.From)
	}
	v := &guest{Grant: grant, Order: p.Order, Settings: p.Settings, Begun: now.UTC(), Heard: now.UTC(), doing: map[string]bool{}}
	if err := g.save(v); err != nil {
		return err
	}
	g.all[grant.Move] = v
	return nil
}

// take begins a step or a part of a guest, if it is its time. done says what came of it;
// it must be called.
func (g *guests) take(grant wire.Grant, what string, may func(*guest) error, now time.Time) (o migrate.Order, done func(error, func(*guest)) error, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.all[grant.Move]
	if v == nil {
		return o, nil, deny(whyUnknown, migrate.CodeGone, "move %s was not begun here", grant.Move)
	}
	if v.Grant.From != grant.From || !v.Grant.Same(grant.Manifest) {
		return o, nil, deny(whyForeign, migrate.CodeDenied, "move %s was begun here by another grant", grant.Move)
	}
	if err := may(v); err != nil {
		return o, nil, err
	}
	if v.doing[what] {
		return o, nil, fmt.Errorf("%s of move %s is under way", what, grant.Move) // not definite: ask again
	}
	if v.Tried {
		if err := g.save(v); err != nil {
			return o, nil, err
		}
	}
	v.doing[what] = true
	v.Heard = now.UTC()
	return v.Order, func(err error, note func(*guest)) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(v.doing, what)
		if err != nil {
			return err
		}
		was := v.clone()
		note(v)
		if err := g.save(v); err != nil {
			*v = was
			return err
		}
		return nil
	}, nil
}

// clone copies what a note may change. The lock is held.
func (v *guest) clone() guest {
	c := *v
	c.Taken, c.Received = maps.Clone(v.Taken), maps.Clone(v.Received)
	return c
}

// ended says how a call is answered after a guest's end; nil before.
func (v *guest) ended(step migrate.Step) error {
	switch {
	case v.End == "":
		return nil
	case v.End == endConfirmed && step == migrate.StepConfirm:
		return deny(whyReplayed, migrate.CodeDone, "the copy of %s was confirmed already", v.Order.Container.Name)
	case v.End == endConfirmed && step == migrate.StepDiscard:
		return deny(whyReplayed, migrate.CodeRefused, "the copy of %s is the container by now", v.Order.Container.Name)
	}
	return deny(whyReplayed, migrate.CodeGone, "the copy of %s was %s", v.Order.Container.Name, v.End)
}

// mayTake says whether a step may be taken now.
func (v *guest) mayTake(step migrate.Step) error {
	if err := v.ended(step); err != nil {
		return err
	}
	_, again := v.Taken[step]
	_, created := v.Taken[migrate.StepCreate]
	_, restored := v.Taken[migrate.StepRestore]
	missing := slices.DeleteFunc(v.Order.Needed(), func(part string) bool { return v.Received[part] != "" })
	switch {
	case step == migrate.StepDiscard:
		return nil
	case again:
		return deny(whyReplayed, migrate.CodeDone, "%s of %s was done already", step, v.Order.Container.Name)
	case step == migrate.StepConfirm && !restored:
		return deny(whyNotTarget, migrate.CodeGone, "the copy of %s was not restored", v.Order.Container.Name)
	case step == migrate.StepConfirm:
		return nil
	case v.Tried:
		return deny(whyNotTarget, migrate.CodeDenied, "%s of %s comes after its restore", step, v.Order.Container.Name)
	case step == migrate.StepPullImage && created:
		return deny(whyNotTarget, migrate.CodeDenied, "the copy of %s was created already", v.Order.Container.Name)
	case step == migrate.StepPull && v.Order.Approach != migrate.ApproachCommit:
		return deny(whyNotTarget, migrate.CodeDenied, "approach %s has no step %s", v.Order.Approach, step)
	case step == migrate.StepCreate && v.Order.Approach == migrate.ApproachCommit && v.Order.Committed == nil:
		return deny(whyNotTarget, migrate.CodeDenied, "the committed image of %s was not pulled", v.Order.Container.Name)
	case step == migrate.StepRestore && len(missing) > 0:
		return deny(whyNotTarget, migrate.CodeDenied, "%s of %s has not arrived", missing[0], v.Order.Container.Name)
	}
	return nil
}

// mayReceive says whether a part may come now.
func (v *guest) mayReceive(part string) error {
	if err := v.ended(""); err != nil {
		return err
	}
	switch {
	case !slices.Contains(v.Grant.Parts, part) || part == migrate.PartCommit:
		return deny(whyAltered, migrate.CodeDenied, "the grant has no part %.80q", part)
	case v.Received[part] != "":
		return deny(whyReplayed, migrate.CodeDone, "%s has arrived already", part)
	case v.Tried:
		return deny(whyNotTarget, migrate.CodeDenied, "%s comes after the restore", part)
	}
	return nil
}
