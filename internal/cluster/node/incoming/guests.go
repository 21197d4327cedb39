// SPDX-License-Identifier: Apache-2.0

package incoming

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"weir/internal/base/atomicfile"
	"weir/internal/base/safepath"
	"weir/internal/base/statefile"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/gate"
	"weir/internal/cluster/node/guest"
	"weir/internal/cluster/warrant"
	"weir/internal/core/wire"
)

const (
	// keepGuests is for how long the end of a copy is remembered: longer than any order
	// lives.
	keepGuests = 7 * 24 * time.Hour
	// abandonAfter is after how long without a word a copy that never ran is discarded: no
	// probation ends it.
	abandonAfter = 24 * time.Hour
	// SweepAfter is the time after which a discarded copy is discarded once more: an
	// engine may finish a call after its caller has gone.
	SweepAfter = time.Minute
	// discardWait is for how long a discard waits for the end of a step that it has
	// cancelled.
	discardWait = 30 * time.Second
)

// entry is a record with what belongs to this process. One step or part of a guest is
// dealt with at a time.
type entry struct {
	mu sync.Mutex // not held while the engine works
	guest.Arrival
	void    bool  // never written down, or forgotten: not to be used
	doing   *task // nil = nothing
	leaving int   // discards that wait for the end of doing; nothing else begins
}

// task is a step or a part that the engine deals with.
type task struct {
	what   string
	cancel context.CancelFunc
	ended  chan struct{}
}

// guests has all copies that come to this node. Each is a small file, written before
// what it says is acted upon, and until it is settled a second one with the source's
// very bytes:
//
//	DIR/MOVE.json           what was granted, done and received
//	DIR/MOVE.description    written once
//
// Each has a lock of its own, so that the disk makes one source wait for itself only.
// A guest's lock is taken before that of the map.
type guests struct {
	files   statefile.Folder[guest.Arrival]
	dir     string
	reading gate.Slots // decoding a description takes many times its size

	mu   sync.Mutex // of the maps
	all  map[string]*entry
	open map[string]int // under way, by source
}

func openGuests(dir string, reading gate.Slots, now time.Time, log *slog.Logger) (*guests, error) {
	g := &guests{dir: dir, reading: reading, all: map[string]*entry{}, open: map[string]int{}}
	files, all, err := statefile.Open[guest.Arrival](dir, log)
	if err != nil {
		return nil, err
	}
	g.files = files
	for id, r := range all {
		r.Shorten()
		if r.End == "" {
			g.open[r.Grant.From]++
		}
		g.all[id] = &entry{Arrival: *r}
	}
	g.forget(now)
	return g, g.tidy()
}

// tidy removes the descriptions of guests that are settled or not on record: no
// call reads them.
func (g *guests) tidy() error {
	files, err := filepath.Glob(filepath.Join(g.dir, "*.description"))
	for _, file := range files {
		id := strings.TrimSuffix(filepath.Base(file), ".description")
		v := g.all[id]
		if v == nil && !g.files.Damaged(id) || v != nil && v.Settled() {
			err = errors.Join(err, os.Remove(file))
		}
	}
	return err
}

func (g *guests) description(move string) string { return filepath.Join(g.dir, move+".description") }

// list returns every guest of now.
func (g *guests) list() (list []*entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.all {
		list = append(list, v)
	}
	return list
}

// find returns a guest, locked; nil if there is none.
func (g *guests) find(move string) *entry {
	g.mu.Lock()
	v := g.all[move]
	g.mu.Unlock()
	if v == nil {
		return nil
	}
	v.mu.Lock()
	if v.void {
		v.mu.Unlock()
		return nil
	}
	return v
}

// drop forgets a guest. Its lock is held.
func (g *guests) drop(v *entry) {
	v.void = true
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, v.Grant.Move)
	if v.End == "" {
		g.left(v.Grant.From)
	}
}

// left counts a guest of a source as not under way any more. The lock is held.
func (g *guests) left(source string) {
	if g.open[source]--; g.open[source] <= 0 {
		delete(g.open, source)
	}
}

// forget drops guests whose end is long ago: their grants have expired by far.
func (g *guests) forget(now time.Time) {
	for _, v := range g.list() {
		v.mu.Lock()
		if !v.void && v.End != "" && now.Sub(v.Heard) > keepGuests {
			g.drop(v)
			_ = g.files.Remove(v.Grant.Move)
			_ = os.Remove(g.description(v.Grant.Move))
		}
		v.mu.Unlock()
	}
}

// put writes down what a guest has become, and then has it be that. Its lock is held.
func (g *guests) put(v *entry, next guest.Arrival) error {
	next.Shorten()
	if err := g.files.Put(next.Grant.Move, &next); err != nil {
		return err
	}
	if v.End == "" && next.End != "" {
		g.mu.Lock()
		g.left(next.Grant.From)
		g.mu.Unlock()
	}
	v.Arrival = next
	if v.Settled() {
		_ = os.Remove(g.description(next.Grant.Move)) // else the next process does
	}
	return nil
}

// proposal reads a guest's description. Its lock is held.
func (g *guests) proposal(ctx context.Context, v *entry) (p warrant.Proposal, err error) {
	text, err := safepath.ReadFile(g.description(v.Grant.Move))
	if err != nil {
		return p, err
	}
	p, err = g.decode(ctx, text, v.Grant)
	p.Order.Committed = v.Committed
	return p, err
}

// decode reads a description, when it is its turn.
func (g *guests) decode(ctx context.Context, text []byte, grant wire.Grant) (p warrant.Proposal, err error) {
	done, err := g.reading.Take(ctx)
	if err != nil {
		return p, err
	}
	defer done()
	if p, err = warrant.ReadProposal(text, grant); err == nil {
		err = guest.CheckLists(p.Order)
	}
	return p, err
}

// these returns the guests for which f holds.
func (g *guests) these(f func(v *entry) bool) (list []guest.Arrival) {
	for _, v := range g.list() {
		v.mu.Lock()
		if !v.void && f(v) {
			list = append(list, v.Clone())
		}
		v.mu.Unlock()
	}
	return list
}

// arrivedOf returns a guest that was confirmed and whose settings were not dealt with
// yet, with those settings.
func (g *guests) arrivedOf(ctx context.Context, id string) (r guest.Arrival, settings wire.ChangeJSON, ok bool) {
	v := g.find(id)
	if v == nil {
		return r, nil, false
	}
	defer v.mu.Unlock()
	if v.End != move.Confirmed || v.Applied {
		return r, nil, false
	}
	p, err := g.proposal(ctx, v)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // as of a former version
		return r, nil, false
	}
	return v.Clone(), p.Settings, true
}

// toSweep returns the order of a guest that is to be discarded once more. One whose
// description is lost cannot be.
func (g *guests) toSweep(ctx context.Context, move string) (migrate.MoveSpec, bool) {
	v := g.find(move)
	if v == nil {
		return migrate.MoveSpec{}, false
	}
	defer v.mu.Unlock()
	p, err := g.proposal(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		next := v.Clone()
		next.Swept = true
		_ = g.put(v, next) // else with the next look
	}
	return p.Order, err == nil
}

// note changes a guest that has ended.
func (g *guests) note(move string, change func(*guest.Arrival)) error {
	v := g.find(move)
	if v == nil {
		return nil
	}
	defer v.mu.Unlock()
	next := v.Clone()
	change(&next)
	return g.put(v, next)
}

// begin notes a new guest. The same again is no harm before anything was done.
func (g *guests) begin(grant wire.Grant, text []byte, now time.Time) error {
	c := move.Question{By: move.Target, Step: move.Begin, Move: grant.Move, Deadline: grant.Deadline}
	c.Note(now.After(grant.Deadline), move.Late)
	c.Note(g.files.Damaged(grant.Move), move.Damaged)
	if was := g.find(grant.Move); was != nil {
		defer was.mu.Unlock()
		c.Begun = was.Begun
		c.Note(true, move.Known)
		c.Note(!was.GrantedBy(grant), move.Other)
		c.Note(was.End != "" || was.doing != nil || len(was.Taken) > 0 || len(was.Received) > 0, move.Touched)
	}
	if again, err := c.Take(); again || err != nil {
		return err
	}
	v := &entry{Arrival: guest.Arrival{Grant: grant, Begun: now.UTC(), Heard: now.UTC()}}
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := g.admit(v); err != nil {
		return err
	}
	err := atomicfile.Write(g.description(grant.Move), text, 0o600)
	if err == nil {
		err = g.put(v, v.Arrival)
	}
	if err != nil {
		g.drop(v)
		_ = os.Remove(g.description(grant.Move)) // else the next process does
	}
	return err
}

// admit makes a guest known, if its source has not too many.
func (g *guests) admit(v *entry) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	id, source := v.Grant.Move, v.Grant.From
	if g.all[id] != nil {
		return fmt.Errorf("move %s is just being begun", id) // not definite: ask again
	}
	if g.open[source] >= gate.CopiesEach {
		return move.Deny(move.WhyTooMany, move.CodeDenied, "%d containers of %s are on their way here already", g.open[source], source)
	}
	g.all[id] = v
	g.open[source]++
	return nil
}
