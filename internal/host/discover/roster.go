// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"maps"
	"time"

	"weir/internal/host/discover/engine"
)

// roster holds the known state of an engine's containers. It remembers and decides; its
// caller asks the engine and the kernel.
//
// A container is announced (the engine connects it to a network, so it is about
// to start), then has a process (found by its cgroup, before the engine tells),
// then is confirmed (the engine said so when asked after the start event). From
// the moment that it has a process it belongs on the list.
type roster struct {
	records map[string]*record // by id
}

type record struct {
	engine.Container
	confirmed bool      // the engine says that it runs
	announced time.Time // when it was last connected to a network, zero if it is not about to start
	ns        *namespace
	netns     string   // file of ns
	by        string   // Sandbox when both were looked up
	cgroups   []string // by which it is known if not by devices alone
	note      string   // why it cannot be told apart, or not wholly
	noted     bool     // both have been looked up
	veths     bool     // it had devices then
	sockets   []string // its cgroup, where it has devices
	reach     string   // what it can do to devices of the host
	looked    bool     // both have been looked up

	looking bool // the engine is being asked
	again   bool // and was overtaken by an event
}

// announcement bounds the time of a start between its first network and its process.
const announcement = time.Minute

func newRoster() *roster { return &roster{records: map[string]*record{}} }

// question is something to ask the engine about a container.
type question int

const (
	nothing question = iota
	summary          // engine.Summary: never waits
	inspect          // engine.Inspect: the truth
)

// event takes an engine's event in and says what to ask.
func (r *roster) event(e engine.Event, now time.Time) question {
	if e.Container == "" { // a network without a container
		return nothing
	}
	c := r.records[e.Container]
	if c == nil {
		c = &record{Container: engine.Container{ID: e.Container}}
		r.records[e.Container] = c
	}
	c.noted, c.looked = false, false
	switch e.Action {
	case "connect":
		if c.confirmed { // it is in more networks than before
			return r.ask(c)
		}
		c.announced = now
		if c.Name != "" { // it ran before
			return nothing
		}
		return summary
	case "disconnect":
		if c.confirmed {
			return nothing
		}
		c.ended() // the start failed, or this follows its death
	case "die":
		c.ended()
	}
	return r.ask(c)
}

// ended forgets a container's process, so that it leaves the list.
func (c *record) ended() {
	c.confirmed, c.announced, c.Pid, c.ns = false, time.Time{}, 0, nil
}

// ask makes sure that the engine is inspected after this moment, once at a time.
func (r *roster) ask(c *record) question {
	if c.looking {
		c.again = true
		return nothing
	}
	c.looking = true
	return inspect
}

// summarized takes the answer to a summary in.
func (r *roster) summarized(info engine.Container) {
	if c := r.records[info.ID]; c != nil && !c.confirmed {
		pid := c.Pid
		c.Container = info
		c.Pid = pid
	}
}

// inspected takes the answer to an inspect in and says whether to ask again,
// because something happened meanwhile.
func (r *roster) inspected(info engine.Container) question {
	c := r.records[info.ID]
	if c == nil {
		return nothing
	}
	if c.looking = false; c.again {
		c.again = false
		return r.ask(c)
	}
	switch {
	case info.Running:
		if c.Pid != info.Pid {
			c.ns = nil
		}
		c.Container = info
		c.confirmed, c.announced, c.noted, c.looked = true, time.Time{}, false, false
	case c.announced.IsZero():
		delete(r.records, info.ID)
	default: // the answer is from before its start: the start event will tell
	}
	return nothing
}

// unlisted takes in that a summary found no such container. If the engine is being
// asked, its answer will tell.
func (r *roster) unlisted(id string) {
	if c := r.records[id]; c != nil && !c.looking {
		delete(r.records, id)
	}
}

// gone takes in that an inspect found no such container, and says whether to ask again,
// because something happened meanwhile.
func (r *roster) gone(id string) question {
	if c := r.records[id]; c != nil && c.again {
		c.looking, c.again = false, false
		c.ended()
		return r.ask(c)
	}
	delete(r.records, id)
	return nothing
}

// connected takes in the list of running containers at the beginning of a
// session with the engine; all of them are to be inspected. Others are
// forgotten, whatever was known of them.
func (r *roster) connected(running []engine.Container) (ask []string) {
	before := r.records
	r.records = make(map[string]*record, len(running))
	for _, info := range running {
		c := before[info.ID]
		if c == nil {
			c = &record{}
		}
		pid := c.Pid
		c.Container = info
		c.Pid = pid
		c.announced, c.again, c.noted, c.looked = time.Time{}, false, false, false
		c.looking = true
		r.records[info.ID] = c
		ask = append(ask, info.ID)
	}
	return ask
}

// disconnected takes in that the engine does not answer any more. Its containers
// may go on without it, or end and come back while it starts: so they are kept,
// and those without a process are expected.
func (r *roster) disconnected(now time.Time) {
	for id, c := range r.records {
		if c.Name == "" { // only announced, nothing known
			delete(r.records, id)
			continue
		}
		c.looking, c.again = false, false
		c.announced = now
	}
}

// expected returns the containers whose process is to be looked for.
func (r *roster) expected(now time.Time) map[string]bool {
	ids := map[string]bool{}
	for id, c := range r.records {
		if c.Pid == 0 && now.Sub(c.announced) < announcement {
			ids[id] = true
		}
	}
	return ids
}

// found takes in the process of an expected container.
func (r *roster) found(id string, pid int) {
	if c := r.records[id]; c != nil {
		c.Pid, c.Sandbox, c.ns, c.noted, c.looked = pid, "", nil, false, false
	}
}

// present returns the containers that belong on the list: those with a process whose name
// is known.
func (r *roster) present() []*record {
	var list []*record
	for c := range maps.Values(r.records) {
		if c.Pid > 0 && c.Name != "" {
			list = append(list, c)
		}
	}
	return list
}
