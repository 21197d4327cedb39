// SPDX-License-Identifier: Apache-2.0

package warrant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/base/crowd/crowdtest"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/migrate/remote"
	"weir/internal/cluster/move"
	"weir/internal/cluster/pki"
)

// allCalls are all that the narrow protocol has for a move, each with the role whose it
// is: every step, every part, and the questions about a copy.
func allCalls(agent *remote.Engine, ctx context.Context) map[string]func(migrate.MoveSpec) error {
	calls := map[string]func(migrate.MoveSpec) error{
		"target copy":    func(o migrate.MoveSpec) error { _, _, err := agent.Copy(ctx, o.Move); return err },
		"target hold":    func(o migrate.MoveSpec) error { return agent.Hold(ctx, o) },
		"target release": func(o migrate.MoveSpec) error { return agent.Release(ctx, o) },
	}
	for _, step := range []move.Step{move.PullImage, move.Create, move.Pull, move.Restore, move.Confirm, move.Discard,
		move.PushImage, move.PreCopy, move.Freeze, move.Commit, move.Push, move.Forget, move.Thaw} {
		role := "source "
		if step.OfTarget() {
			role = "target "
		}
		calls[role+string(step)] = func(o migrate.MoveSpec) error { _, err := agent.Do(ctx, step, o); return err }
	}
	for _, part := range []migrate.Part{{Kind: migrate.PartVolume, Name: "data"}, {Kind: migrate.PartCheckpoint}} {
		calls["source send "+part.String()] = func(o migrate.MoveSpec) error { _, err := agent.Send(ctx, part, o, io.Discard); return err }
		calls["target receive "+part.String()] = func(o migrate.MoveSpec) error {
			_, err := agent.Receive(ctx, part, o, strings.NewReader("x"))
			return err
		}
	}
	return calls
}

// refused makes calls that all have to be refused with one of the codes, logged and
// counted, while nothing is asked of the engine and nothing is written down.
func (b *bed) refused(name string, calls map[string]func(migrate.MoveSpec) error, o migrate.MoveSpec) {
	b.t.Helper()
	asked, held, counted, logged := len(b.engine.calls()), b.hold(), b.ledger.Refused(), strings.Count(b.log.String(), "call refused")
	for what, call := range calls {
		err := call(o)
		var no *move.Error
		if !errors.As(err, &no) || !slices.Contains([]move.Code{move.CodeDenied, move.CodeGone, move.CodeDone, move.CodeRefused, move.CodeNotAccepted}, no.Code) {
			b.t.Errorf("%s: %s: %v", name, what, err)
		}
	}
	if got := b.engine.calls(); len(got) > asked {
		b.t.Errorf("%s: the engine was asked: %q", name, got[asked:])
	}
	if b.hold() != held {
		b.t.Errorf("%s: what the helper keeps has changed", name)
	}
	if got := b.ledger.Refused() - counted; got != uint64(len(calls)) {
		b.t.Errorf("%s: %d of %d refusals were counted", name, got, len(calls))
	}
	if got := strings.Count(b.log.String(), "call refused") - logged; got != len(calls) {
		b.t.Errorf("%s: %d of %d refusals were logged", name, got, len(calls))
	}
}

// TestHostileAgent: an agent that is taken over speaks the narrow protocol with the
// helper. Without a grant, and with one that is expired, forged, changed, for another
// container, of another role, for other nodes, or used up, every call is refused, logged
// and counted, and nothing is asked of the engine.
func TestHostileAgent(t *testing.T) {
	b := newBed(t, "b")
	ctx := t.Context()
	calls := allCalls(b.agent, ctx)
	soon, past := b.now.Add(time.Minute), b.now.Add(-time.Hour)
	in, out := order("m-in", "web", "a", "b"), order("m-out", "db", "b", "a")
	pick := func(role string) map[string]func(migrate.MoveSpec) error {
		some := map[string]func(migrate.MoveSpec) error{}
		for name, call := range calls {
			if strings.HasPrefix(name, role) {
				some[name] = call
			}
		}
		return some
	}
	preflight := func(w *remote.Warrant) map[string]func(migrate.MoveSpec) error {
		ctx := ctx
		if w != nil {
			ctx = remote.WithWarrant(ctx, *w)
		}
		return map[string]func(migrate.MoveSpec) error{
			"describe": func(o migrate.MoveSpec) error { _, err := b.agent.Describe(ctx, o.Container.Name); return err },
			"lacking":  func(o migrate.MoveSpec) error { _, err := b.agent.Lacking(ctx, o); return err },
		}
	}
	admission := func(w remote.Warrant) map[string]func(migrate.MoveSpec) error {
		return map[string]func(migrate.MoveSpec) error{"admit": func(migrate.MoveSpec) error { return b.admit(w) }}
	}

	b.refused("without a grant", calls, in)
	b.refused("without an order", preflight(nil), in)
	late := b.ordered(in, past)
	b.refused("with an order of yesterday", preflight(&late), in)
	foreign := b.ordered(order("m-1", "web", "a", "c"), soon)
	b.refused("with an order for other nodes", preflight(&foreign), in)
	other := b.ordered(order("m-2", "cache", "b", "a"), soon)
	b.refused("with an order for another container", preflight(&other), in)

	forged := b.granted(in, soon)
	forged.Sealed = b.seal(b.newManager(b.authority), "a", grantOf(t, forged))
	changed := b.granted(in, soon)
	changed.Proposal = []byte(strings.Replace(string(changed.Proposal), `"image_id":"sha256:1"`, `"image_id":"sha256:2"`, 1))
	byNode := b.granted(in, soon)
	member := must[pki.Identity](t)(pki.LoadIdentity(filepath.Join(b.dir, "identity")))
	byNode.Sealed, byNode.Manager = b.seal(member, "a", grantOf(t, byNode)), member.Bundle()
	elsewhere := b.granted(order("m-3", "web", "a", "c"), soon)
	orderOnly := b.ordered(in, soon)
	for name, w := range map[string]remote.Warrant{"expired": b.granted(in, past), "forged": forged, "changed": changed,
		"vouched for by a node": byNode, "for other nodes": elsewhere, "an order": orderOnly, "nothing": {}} {
		b.refused("a grant that is "+name, admission(w), in)
		b.refused("after a grant that is "+name, calls, in)
	}

	if err := errors.Join(b.admit(b.granted(in, soon)), b.admit(b.granted(out, soon))); err != nil {
		t.Fatal(err)
	}
	b.refused("with the grant of a target", pick("source"), in)
	b.refused("with the grant of a source", pick("target"), out)
	for _, role := range []string{"source", "target"} {
		o := map[string]migrate.MoveSpec{"source": out, "target": in}[role]
		o.Container.ID, o.Container.Name = "id-cache", "cache"
		named := pick(role)
		delete(named, "target copy") // names no container
		b.refused("with a grant for another container", named, o)
	}
	elsewherePull := in
	elsewherePull.Registry = "192.0.2.7:5000"
	b.refused("with another registry", map[string]func(migrate.MoveSpec) error{"pull-image": calls["target pull-image"]}, elsewherePull)
	other2 := out
	other2.Committed = &migrate.Committed{ImageID: "sha256:secret"}
	b.refused("push of another image", map[string]func(migrate.MoveSpec) error{"push": calls["source push"]}, other2)
	strange := map[string]func(migrate.MoveSpec) error{
		"step":                            func(o migrate.MoveSpec) error { _, err := b.agent.Do(ctx, "rm -rf", o); return err },
		"step that is none of an order's": func(o migrate.MoveSpec) error { _, err := b.agent.Do(ctx, move.Hold, o); return err },
		"pre-flight":                      func(o migrate.MoveSpec) error { _, err := b.agent.Do(ctx, move.Preflight, o); return err },
		"part without a name": func(o migrate.MoveSpec) error {
			_, err := b.agent.Receive(ctx, migrate.Part{}, o, strings.NewReader("x"))
			return err
		},
		"part": func(o migrate.MoveSpec) error {
			_, err := b.agent.Receive(ctx, migrate.Part{Kind: migrate.PartVolume, Name: "other"}, o, strings.NewReader("x"))
			return err
		},
	}
	b.refused("with a step or a part that was not granted", strange, in)

	b.now = b.now.Add(longestMove + time.Minute)
	old := pick("target")
	for _, settles := range []string{"target confirm", "target discard", "target copy", "target hold", "target release"} {
		delete(old, settles)
	}
	b.refused("a day later", old, in)
	t.Logf("%d calls were refused", b.ledger.Refused())
	refused := b.ledger.Refused()
	b.stop()
	if again := must[*Admissions](t)(Open(b.ledger.opts)); again.Refused() != refused {
		t.Errorf("after a restart %d refusals are counted, %d before", again.Refused(), refused)
	}
}

// TestWhatRefusalsCost: a call of a taken-over agent without a grant costs the helper little,
// whatever it is; of one that is none the body is not read.
func TestWhatRefusalsCost(t *testing.T) {
	b := newBed(t, "b")
	h := remote.NewHelper(b.engine, b.ledger, 0, slog.New(slog.DiscardHandler)).Handler()
	o := order("m-in", "web", "a", "b")
	late, forged := b.granted(o, b.now.Add(-time.Hour)), b.granted(o, b.now.Add(time.Minute))
	forged.Sealed = b.seal(b.newManager(b.authority), "a", grantOf(t, forged))
	part := migrate.Part{Kind: migrate.PartCheckpoint}
	for name, w := range map[string]*remote.Warrant{"no grant": nil, "a late grant": &late, "a forged grant": &forged} {
		for _, verb := range []remote.Verb{remote.Describe, remote.Lacking, remote.Admit, remote.Copy, remote.Hold, remote.Release, remote.Do, remote.Send, remote.Receive} {
			call := remote.Call{Name: "m-in", Step: move.Create, Part: &part, Order: &o, Warrant: w}
			text := must[[]byte](t)(json.Marshal(call))
			if verb == remote.Receive {
				text = must[[]byte](t)(io.ReadAll(must[io.Reader](t)(call.Before(strings.NewReader(crowdtest.Long)))))
			}
			crowdtest.Refused(t, h, name, crowdtest.RefusedRequest{Method: http.MethodPost, Path: remote.Path + string(verb), Body: string(text)}, http.StatusConflict, false)
		}
	}
	for _, verb := range []string{"begin", "run", strings.Repeat("x", 100)} {
		crowdtest.Refused(t, h, "no such call", crowdtest.RefusedRequest{Method: http.MethodPost, Path: remote.Path + verb, Body: crowdtest.Long}, http.StatusConflict, true)
	}
}

// TestGenuineMovesPass: what an agent asks for in a move that the manager has granted
// reaches the engine, once each, with the container as it was granted, over restarts of
// the helper too.
func TestGenuineMovesPass(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	for _, x := range []struct {
		role, from, to string
		calls          []string
		settled        []string // that may be asked for again
	}{
		{"target", "a", "b", []string{"pull-image", "create", "receive volume data", "receive checkpoint", "restore", "hold", "copy", "release", "confirm"}, []string{"confirm", "release"}},
		{"target", "a", "b", []string{"pull-image", "create", "restore", "hold", "discard"}, []string{"discard"}},
		{"source", "b", "a", []string{"push-image", "pre-copy", "freeze", "commit", "push", "send volume data", "send checkpoint", "forget"}, []string{"forget"}},
		{"source", "b", "a", []string{"freeze", "thaw"}, []string{"thaw"}},
	} {
		t.Run(fmt.Sprintf("%s ends by %s", x.role, x.settled[0]), func(t *testing.T) {
			b := newBed(t, "b")
			o := order("m-1", "web", x.from, x.to)
			preflight := remote.WithWarrant(t.Context(), b.ordered(o, soon))
			var err error
			if x.role == "source" {
				_, err = b.agent.Describe(preflight, "web")
			} else {
				_, err = b.agent.Lacking(preflight, o)
			}
			w := b.granted(o, soon)
			if err := errors.Join(err, b.admit(w), b.admit(w)); err != nil { // an answer that was lost
				t.Fatal(err)
			}
			asked := o
			asked.Registry = "127.0.0.1:7474"
			asked.Container.Restart = "always" // of the call's own order nothing counts
			want := len(b.engine.calls())
			for _, what := range x.calls {
				b.stop()
				b.start(Options{})
				if what == "push" {
					asked.Committed = &migrate.Committed{ImageID: "sha256:made"}
				}
				if err := allCalls(b.agent, t.Context())[x.role+" "+what](asked); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				want++
				if got := b.engine.calls(); len(got) != want || b.engine.order.Container.Restart != "" {
					t.Fatalf("%s: the engine was asked %q, about %+v", what, got, b.engine.order)
				}
			}
			calls := allCalls(b.agent, t.Context())
			for _, what := range x.settled { // an answer that was lost
				if err := calls[x.role+" "+what](asked); err != nil {
					t.Errorf("%s again: %v", what, err)
				}
				if what == string(move.Discard) {
					want++ // the engine looks again for remains
				}
				delete(calls, x.role+" "+what)
			}
			if got := b.engine.calls(); len(got) != want {
				t.Errorf("the engine was asked again: %q", got[want:])
			}
			delete(calls, "target copy") // asks for nothing
			b.refused("replayed", calls, asked)
			b.refused("replayed", map[string]func(migrate.MoveSpec) error{"admit": func(migrate.MoveSpec) error { return b.admit(w) }}, asked)
		})
	}
}

// TestAcceptedSources: a target's helper knows cluster.accept_from itself.
func TestAcceptedSources(t *testing.T) {
	b := newBed(t, "b")
	b.stop()
	b.start(Options{AcceptFrom: []string{"c"}})
	for from, accepted := range map[string]bool{"a": false, "c": true} {
		if err := b.admit(b.granted(order("m-"+from, "web", from, "b"), b.now.Add(time.Minute))); (err == nil) != accepted {
			t.Errorf("from %s: %v", from, err)
		}
	}
}
