// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/config"
	"weir/internal/core/event"
	"weir/internal/test/logtest"
)

// TestKindsThatAreWanted: the others are passed over, and count as reached.
func TestKindsThatAreWanted(t *testing.T) {
	s := newServer(t)
	c := hook(s.URL)
	c.Events = []string{"drops"}
	sinks, _ := telling(t, c)
	drops := sample(2)
	drops.Kind = "drops"
	sinks.Offer([]event.Event{sample(1), drops, sample(3)})
	await(t, "delivered", func() bool { return sinks.Status()[0].Delivered == 1 })
	sinks.Offer([]event.Event{sample(4)})
	if ids := s.ids(); !slices.Equal(ids, []uint64{2}) || sinks.Reached()[toWebhook] != 4 {
		t.Errorf("%v, reached %v", ids, sinks.Reached())
	}
}

// TestNextAgentGoesOn: what one agent did not get rid of, the next one delivers; a way that the
// one before did not have begins with what happens from now on.
func TestNextAgentGoesOn(t *testing.T) {
	s := newServer(t)
	recent := []event.Event{sample(1), sample(2), sample(3)}
	for _, c := range []struct {
		reached map[string]uint64
		want    []uint64
	}{{map[string]uint64{toWebhook: 1}, []uint64{2, 3, 4}}, {map[string]uint64{toCommand: 1}, []uint64{4}}, {nil, []uint64{4}}} {
		sinks := New(slog.New(slog.DiscardHandler), c.reached, recent)
		sinks.Follow(hook(s.URL))
		if at := sinks.Reached()[toWebhook]; c.reached[toWebhook] == 0 && at != 3 {
			t.Errorf("%v: a new way begins after event %d, want 3", c.reached, at)
		}
		sinks.Offer([]event.Event{sample(4)})
		await(t, "all are delivered", func() bool { return sinks.Reached()[toWebhook] == 4 })
		if ids := s.ids(); !slices.Equal(ids, c.want) {
			t.Errorf("%v: %v, want %v", c.reached, ids, c.want)
		}
		sinks.Close()
		s.bodies = nil
	}
}

// TestReloads: a way that weir.yaml no longer names ends, one that it did not name before begins.
func TestReloads(t *testing.T) {
	s := newServer(t)
	sinks, _ := telling(t, hook(s.URL))
	sinks.Follow(hook(""))
	if len(sinks.Status())+len(sinks.Reached()) != 0 {
		t.Errorf("%v", sinks.Status())
	}
	sinks.Offer([]event.Event{sample(1)})
	sinks.Follow(hook(s.URL))
	sinks.Offer([]event.Event{sample(2)})
	await(t, "delivered", func() bool { return sinks.Reached()[toWebhook] == 2 })
	if ids := s.ids(); !slices.Equal(ids, []uint64{2}) {
		t.Errorf("%v", ids)
	}
}

// TestTeller: what one has told, the next one does not tell again, over a kill too; what
// was delivered in the second before it may come twice.
func TestTeller(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	log := &logtest.Buffer{}
	now := time.Now()
	refused := event.Sight{Objects: []event.Object{{Type: event.Workload, Name: "web", Refused: "no room"}}}
	fine := event.Sight{Objects: []event.Object{{Type: event.Workload, Name: "web"}}}
	look := func(teller *Teller, s event.Sight) {
		now = now.Add(11 * time.Second)
		s.At = now
		teller.Look(s, event.DefaultBounds)
	}
	for range 3 { // the first two are killed: not closed
		teller := NewTeller(dir, slog.New(slog.NewTextHandler(log, nil)))
		teller.Follow(hook(s.URL))
		look(teller, refused)
		await(t, "delivered", func() bool { return teller.sinks.Reached()[toWebhook] >= 1 })
		look(teller, refused)
		t.Cleanup(teller.sinks.Close)
	}
	last := NewTeller(dir, slog.New(slog.NewTextHandler(log, nil)))
	last.Follow(hook(s.URL))
	look(last, fine)
	look(last, fine)
	await(t, "the end", func() bool { return last.sinks.Reached()[toWebhook] == 2 })
	last.Close()
	if ids := s.ids(); !slices.Equal(ids, []uint64{1, 2}) {
		t.Errorf("events %v\n%s", ids, log)
	}
}

// TestDeliveredIsKept: an agent that is killed soon after a delivery has kept that it was one, with
// one write and not one for each event.
func TestDeliveredIsKept(t *testing.T) {
	s, dir := newServer(t), t.TempDir()
	now := time.Now()
	seen := event.Sight{}
	for _, name := range []string{"a", "b", "c", "d"} {
		seen.Objects = append(seen.Objects, event.Object{Type: event.Workload, Name: name, Refused: "no room"})
	}
	teller := NewTeller(dir, slog.New(slog.DiscardHandler))
	teller.Follow(hook(s.URL))
	t.Cleanup(teller.sinks.Close)
	look := func() {
		now = now.Add(time.Second)
		seen.At = now
		teller.Look(seen, event.DefaultBounds)
	}
	look()
	await(t, "delivered", func() bool { return teller.sinks.Reached()[toWebhook] == 4 })
	look()
	kept := teller.kept
	look()
	if !teller.kept.Equal(kept) {
		t.Error("written again, and nothing was delivered")
	}
	next := NewTeller(dir, slog.New(slog.DiscardHandler)) // the first is killed: not closed
	next.Follow(hook(s.URL))
	t.Cleanup(next.sinks.Close)
	if next.sinks.Reached()[toWebhook] != 4 || next.sinks.Status()[0].Waiting != 0 {
		t.Errorf("the next agent begins after event %v and has %+v to deliver", next.sinks.Reached(), next.sinks.Status())
	}
}

// TestForesee: what keeps events from leaving this host is known before the first one.
func TestForesee(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := config.DefaultTell()
	good.Webhook.URL, good.Webhook.SecretFile = "https://alerts.example.org", file("secret", "whsec_"+strings.Repeat("QUFB", 8)+"\n", 0o600)
	good.Command.Run = []string{script(t, "true")}
	bad := config.DefaultTell()
	bad.Webhook.URL, bad.Webhook.SecretFile, bad.Webhook.CA = "https://alerts.example.org", "/nonexistent/secret", file("ca.pem", "none", 0o644)
	bad.Command.Run = []string{"/nonexistent/prog"}
	short := config.DefaultTell()
	short.Webhook.URL, short.Webhook.SecretFile = "https://alerts.example.org", file("short", "whsec_QUFB\n", 0o600)
	short.Command.Run = []string{file("prog", "", 0o644)}
	for _, c := range []struct {
		tell config.Tell
		want []string
	}{
		{config.DefaultTell(), nil},
		{good, nil},
		{bad, []string{"tell.webhook.secret_file: secret /nonexistent/secret: no such file or directory; events wait until that is right",
			"tell.webhook.ca: authority " + bad.Webhook.CA + ": holds no certificate; give a file in PEM (BEGIN CERTIFICATE); events wait until that is right",
			"tell.command.run: /nonexistent/prog: no such file or directory; events are given up until that is right"}},
		{short, []string{"tell.webhook.secret_file: secret " + short.Webhook.SecretFile + ": is not whsec_ with 24 bytes or more in base64; make one: echo whsec_$(openssl rand -base64 32); events wait until that is right",
			"tell.command.run: " + short.Command.Run[0] + ": is no program; make it one: chmod 755 " + short.Command.Run[0] + "; events are given up until that is right"}},
	} {
		if got := Foresee(c.tell); !slices.Equal(got, c.want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
