// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"errors"
	"testing"
	"time"

	"weir/internal/core/workload"
)

// mute is how long the agent may believe a stream of events that is open and says nothing.
const mute = 30 * time.Second

// A stream that is open and says nothing of a start, an end, a restart or a new name is found out
// by a list, and events that a new stream has are heard at once.
func TestMuteDockerStream(t *testing.T) {
	e := newFakeEngine(running(idA, "a", 1))
	world(t, e, func(w *fixture) {
		w.process(1, idA, 5)
		w.start()
		w.expect("at first", "docker:a veth5")
		w.set(running(idB, "b", 2)) // without an event
		pathB := w.process(2, idB, 7)
		w.pass(mute)
		w.expect("b has started", "docker:a veth5", "docker:b veth7")
		if state, note := w.docker.Status(); state != workload.SourceOK {
			t.Errorf("the engine is %q %q", state, note)
		}
		w.links.dropNamespace(pathB)
		w.proc.end(t, 2)
		w.set(running(idB, "b", 3)) // again
		w.process(3, idB, 9)
		w.pass(mute)
		w.expect("b has started again", "docker:a veth5", "docker:b veth9")
		w.set(running(idB, "c", 3))
		w.pass(mute)
		w.expect("b is called c", "docker:a veth5", "docker:c veth9")
		w.remove(idA)
		w.pass(mute)
		w.expect("a has ended", "docker:c veth9")
		w.set(running(idB, "d", 3), "rename")
		w.pass(2 * settle)
		w.expect("an event that is told", "docker:d veth9")
	})
}

// A list that agrees with the events costs nothing more; one that never agrees (an engine that
// lists what it describes otherwise) has the engine asked anew once.
func TestDockerListsNowAndThen(t *testing.T) {
	e := newFakeEngine(running(idA, "a", 1))
	world(t, e, func(w *fixture) {
		w.process(1, idA, 5)
		w.start()
		inspects, streams := w.counts()
		w.pass(time.Hour)
		if n, s := w.counts(); n != inspects || s != streams {
			t.Errorf("in an hour without a change %d containers are inspected and %d streams begin", n-inspects, s-streams)
		}
		odd := running(idB, "b", 0) // it is listed, and has no process
		odd.Running = true
		w.set(odd)
		w.odd = idB
		w.pass(time.Hour)
		if _, s := w.counts(); s-streams != 1 {
			t.Errorf("%d streams begin because of a container that is listed and not described, want 1", s-streams)
		}
		w.expect("an hour later", "docker:a veth5")
	})
}

// An engine whose stream is open and that does not answer is away, which is said.
func TestDockerEngineHangs(t *testing.T) {
	e := newFakeEngine(running(idA, "a", 1))
	world(t, e, func(w *fixture) {
		w.process(1, idA, 5)
		w.start()
		w.mu.Lock()
		w.down = errors.New("no answer") // and the stream does not end
		w.mu.Unlock()
		w.pass(mute)
		if state, note := w.docker.Status(); state != workload.SourceUnavailable {
			t.Errorf("the engine is %q %q", state, note)
		}
		w.expect("its containers go on", "docker:a veth5")
	})
}
