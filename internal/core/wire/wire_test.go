// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/internal/core/bound"
	"weir/internal/test/boundtest"
)

var at = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

var move = Move{ID: "m-1", Container: "web<&>", From: "a", To: "b", Address: "10.0.0.2:7473", Deadline: at, Why: "a's link is full"}

var manifest = Manifest{Move: "m-1", Node: "a", Container: "web", ContainerID: "c0ffee", Engine: "docker", Approach: "layer",
	Digest: strings.Repeat("0a", 32), ImageID: "sha256:" + strings.Repeat("1b", 32), Parts: []string{"checkpoint", "layer", "volume data"}}

func TestRoundTrip(t *testing.T) {
	for _, m := range []Message{
		&Heartbeat{Node: "a", Seq: 3, Started: at, Engines: []Engine{{"docker", "26.1"}}},
		&move,
		&MoveReport{ID: "m-1", Node: "a", Seq: 2, Step: "checkpoint", State: MoveRunning, Bytes: 7, Duration: time.Second},
		&Apply{ID: "p-1", Workload: "web", Change: ChangeJSON(`{"min":"20mbit"}`)},
		&ApplyReport{ID: "p-1", Node: "b", Error: "no"},
		&PlaceRequest{ID: "p-1", Node: "a", Container: "web", MinBps: 20e6, Change: ChangeJSON(`{"min":"20mbit"}`), Refusal: "full"},
		&manifest,
		&Grant{Manifest: manifest, From: "a", To: "b", Deadline: at, Change: ChangeJSON(`{"min":"20mbit"}`)},
		&Statement{Move: "m-1", Part: "layer", SHA256: manifest.Digest, Bytes: 7},
		&Arrived{Move: "m-1", Node: "b", Error: "no room"},
		&PlaceAnswer{Lacks: []string{"b: 5 Mbit/s"}},
		&Profile{V: ProfileVersion, Node: "a", Time: at, Sequence: 1, Containers: []ContainerProfile{{ID: "1", Name: "web"}}},
	} {
		t.Run(m.Kind(), func(t *testing.T) {
			data, err := Seal(key(1), "a", Reports.Of("a"), "id-1", at, m)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Open(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Verify(public(key(1)), "R.a"); err != nil {
				t.Error(err)
			}
			got := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
			if err := e.Read(got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("got %+v, sent %+v", got, m)
			}
		})
	}
}

// TestForged: whatever is changed about an envelope, its signature does not hold.
func TestForged(t *testing.T) {
	data, err := SealOrder(key(1), Orders.Of("a"), "m-1", at, Term{Until: at.Add(time.Minute), Seq: 7}, &move)
	if err != nil {
		t.Fatal(err)
	}
	honest, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, forge := range map[string]func(*Envelope){
		"container": func(e *Envelope) { e.Body = bytes.Replace(e.Body, []byte("web"), []byte("db_"), 1) },
		"sender":    func(e *Envelope) { e.From = "a" },
		"kind":      func(e *Envelope) { e.Kind = "apply" },
		"id":        func(e *Envelope) { e.ID = "m-2" },
		"time":      func(e *Envelope) { e.At = e.At.Add(time.Second) },
		"deadline":  func(e *Envelope) { e.Until = e.Until.Add(time.Hour) },
		"sequence":  func(e *Envelope) { e.Seq++ },
		"no term":   func(e *Envelope) { e.Term = Term{} },
		"subject":   func(e *Envelope) { e.Subject = "L.b" },
		"border":    func(e *Envelope) { e.Kind, e.From = e.Kind+e.From[:1], e.From[1:] },
		"signature": func(e *Envelope) { e.Sig = ed25519.Sign(key(2), e.signed()) },
		"unsigned":  func(e *Envelope) { e.Sig = nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := honest
			forge(&e)
			if err := e.Verify(public(key(1)), e.Subject); !errors.Is(err, ErrForged) {
				t.Errorf("accepted: %v", err)
			}
		})
	}
	if err := honest.Verify(public(key(1)), "L.b"); !errors.Is(err, ErrForged) {
		t.Errorf("accepted on another's subject: %v", err)
	}
	if err := honest.Verify(nil, "L.a"); !errors.Is(err, ErrForged) {
		t.Errorf("accepted without a key: %v", err)
	}
}

func TestMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want error
	}{
		"nothing":   {``, ErrMalformed},
		"no JSON":   {`hello`, ErrMalformed},
		"a list":    {`[]`, ErrMalformed},
		"version 1": {`{"v":1}`, ErrVersion},
		"too large": {`{"v":2,"kind":"` + strings.Repeat("x", MaxMessage) + `"}`, ErrMalformed},
	} {
		if _, err := Open([]byte(c.data)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := Envelope{Kind: "move", Body: []byte(`{"id":"m"}`)}
	if err := e.Read(&Heartbeat{}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a move was read as a heartbeat: %v", err)
	}
	if err := e.Read(&Move{}); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "container is missing") {
		t.Errorf("half a move: %v", err)
	}
}

// TestManifests: what a source says of its container names files, labels and images on
// other machines, so each field has its form.
func TestManifests(t *testing.T) {
	if err := manifest.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Manifest){
		"a move that leads out of its folder": func(m *Manifest) { m.Move = "../m" },
		"no container":                        func(m *Manifest) { m.Container = "" },
		"an option for an id":                 func(m *Manifest) { m.ContainerID = "-f" },
		"half a digest":                       func(m *Manifest) { m.Digest = m.Digest[:62] },
		"no digest":                           func(m *Manifest) { m.Digest = strings.Repeat("zz", 32) },
		"a part twice":                        func(m *Manifest) { m.Parts = []string{"layer", "layer"} },
		"parts in disorder":                   func(m *Manifest) { m.Parts = []string{"layer", "checkpoint"} },
		"a part without a name":               func(m *Manifest) { m.Parts = []string{""} },
		"too many parts":                      func(m *Manifest) { m.Parts = make([]string, 1000) },
		"negative memory":                     func(m *Manifest) { m.MemoryBytes = -1 },
		"an endless name":                     func(m *Manifest) { m.Container = strings.Repeat("a", MaxName+1) },
		"an endless engine":                   func(m *Manifest) { m.Engine = EngineName(strings.Repeat("a", MaxName+1)) },
		"an endless approach":                 func(m *Manifest) { m.Approach = strings.Repeat("a", MaxName+1) },
		"an endless image":                    func(m *Manifest) { m.ImageID = strings.Repeat("a", MaxName+1) },
	} {
		m := manifest
		change(&m)
		if m.Check() == nil {
			t.Errorf("%s was accepted: %+v", name, m)
		}
		if m.Same(manifest) && name != "negative memory" {
			t.Errorf("%s counts as the same copy", name)
		}
	}
	g := Grant{Manifest: manifest, From: "b", To: "a", Deadline: at}
	if g.Check() == nil {
		t.Error("a grant for the manifest of another node was accepted")
	}
	if (Arrived{Move: "m-1", Node: "a", Error: strings.Repeat("a", MaxText+1)}).Check() == nil {
		t.Error("an endless error was accepted")
	}
}

func TestSubjects(t *testing.T) {
	for _, topic := range Topics {
		if got, node, ok := topic.Of("node-1").Split(); !ok || got != topic || node != "node-1" {
			t.Errorf("%s: %v %v %v", topic, got, node, ok)
		}
	}
	for _, s := range []Subject{"", "M", "M.", "M.*", "M.a.b", "X.a", "MH.a", "M.A"} {
		if _, _, ok := s.Split(); ok {
			t.Errorf("%q is a subject of one node", s)
		}
	}
	for name, good := range map[string]bool{"a": true, "node-1": true, "0": true, Manager: false, "": false, "-a": false,
		"a-": false, "a.b": false, "A": false, "a_b": false, "*": false, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false} {
		if err := CheckNode(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzOpen: whatever a stranger writes on the bus is refused or read, never a panic.
func FuzzOpen(f *testing.F) {
	data, err := Seal(key(1), Manager, Orders.Of("a"), "m-1", at, &move)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, m := range []Message{&manifest, &Grant{Manifest: manifest, From: "a", To: "b", Deadline: at}, &Statement{Move: "m-1", Part: "layer", SHA256: manifest.Digest}} {
		data, err := Seal(key(1), Manager, Orders.Of("a"), "m-1", at, m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"v":2,"kind":"move","body":null}`))
	boundtest.Seeds[[]byte](f, bound.Message, `{"v":2,"kind":"move","body":`, `{"v":2,"kind":"profile","body":{"containers":`)
	f.Fuzz(func(t *testing.T, data []byte) {
		boundtest.Hold(t, func() {
			e, err := Open(data)
			if err != nil {
				return
			}
			_ = e.Verify(public(key(1)), e.Subject)
			for _, m := range []Message{&Move{}, &Profile{}, &Manifest{}, &Grant{}, &Statement{}, &Arrived{}, &Apply{}, &MoveReport{}, &PlaceRequest{}} {
				if e.Read(m) == nil {
					if err := m.Check(); err != nil {
						t.Errorf("%s was read, and is wrong: %v", m.Kind(), err)
					}
				}
			}
		})
	})
}

// TestStates: which states end a move, and which of them its source has reported.
func TestStates(t *testing.T) {
	for state, want := range map[MoveState]struct{ final, settles, underWay bool }{
		"": {}, MoveWaiting: {}, MoveOrdered: {underWay: true}, MoveRunning: {underWay: true},
		MoveDone: {final: true, settles: true}, MoveRolledBack: {final: true, settles: true}, MoveRefused: {final: true, settles: true}, MoveFailed: {final: true, settles: true},
		MoveExpired: {final: true}, MoveCancelled: {final: true}, MoveLost: {final: true},
	} {
		if state.Final() != want.final || state.Settles() != want.settles || state.UnderWay() != want.underWay {
			t.Errorf("%q: final %v, settles %v, under way %v; want %+v", state, state.Final(), state.Settles(), state.UnderWay(), want)
		}
	}
}
