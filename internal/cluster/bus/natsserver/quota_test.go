// SPDX-License-Identifier: Apache-2.0

package natsserver

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/core/wire"
)

// TestForeignMessageID: a member that knows or guesses the id of another's next
// message, and uses it first on a subject of its own, does not keep that message
// from arriving.
func TestForeignMessageID(t *testing.T) {
	b := newBed(t)
	for _, node := range []string{"a", "b"} {
		if err := b.server.Admit(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	hostile, err := b.raw(t, b.identity(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(hostile)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"R.b", "H.b", "M.b"} {
		m := client.NewMsg(subject)
		for _, header := range []string{jetstream.MsgIDHeader, "Weir-Id"} {
			m.Header.Set(header, "m-1-report-7")
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	honest := b.Node(t, "a", &bustest.CutDialer{})
	if err := honest.Publish(ctx, "R.a", "m-1-report-7", []byte("done")); err != nil {
		t.Fatal(err)
	}
	got := make(chan bus.Delivery, 10)
	go b.server.Subscribe(ctx, "reader", "R.*", func(_ context.Context, m bus.Delivery) error {
		got <- m
		return nil
	})
	for {
		select {
		case m := <-got:
			if m.Subject == "R.a" {
				if m.ID != "m-1-report-7" || string(m.Data) != "done" {
					t.Errorf("got %+v", m)
				}
				return
			}
		case <-ctx.Done():
			t.Fatal("a's report has not arrived: b had used its id")
		}
	}
}

// TestMemberFillsItsSubjects: what one member can put on the manager's disk is
// bounded, also while no subscriber reads, and the others go on.
func TestMemberFillsItsSubjects(t *testing.T) {
	b := newBed(t)
	if err := b.server.Admit(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	before := size(t, b.dir)
	hostile, err := b.raw(t, b.identity(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(hostile, jetstream.WithPublishAsyncMaxPending(64))
	if err != nil {
		t.Fatal(err)
	}
	for _, flood := range []struct {
		subject string
		bytes   int
		many    int
	}{{"R.b", 60 << 10, 1500}, {"M.b", 1 << 20, 60}, {"H.b", 10 << 10, 1000}} {
		refused := 0
		for n := 0; n < flood.many && refused < 10 && !hostile.IsClosed(); n++ {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := js.Publish(ctx, flood.subject, bytes.Repeat([]byte{byte(n)}, flood.bytes))
			cancel()
			if err != nil {
				refused++
			}
		}
		t.Logf("%s: %d messages of %d bytes were refused", flood.subject, refused, flood.bytes)
		if flood.subject == "R.b" && refused == 0 {
			t.Error("reports that nobody reads were taken without end")
		}
	}
	grown := size(t, b.dir) - before
	t.Logf("b put %d bytes on the disk", grown)
	if grown > 40<<20 {
		t.Errorf("one member put %d MB on the manager's disk, more than 40", grown>>20)
	}
	// The others go on.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	honest := b.Node(t, "a", &bustest.CutDialer{})
	for _, subject := range []string{"R.a", "M.a", "H.a"} {
		if err := honest.Publish(ctx, wire.Subject(subject), "1", []byte("mine")); err != nil {
			t.Errorf("a is refused as well: %s: %v", subject, err)
		}
	}
}

// TestTooLarge: what the bus never takes is said at once, and does not hold up what
// comes behind it.
func TestTooLarge(t *testing.T) {
	b := newBed(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	node := b.Node(t, "a", &bustest.CutDialer{})
	for subject, bytes := range map[wire.Subject]int{"R.a": 70 << 10, "H.a": 20 << 10, "M.a": wire.MaxMessage + 2<<10} {
		if err := node.Publish(ctx, subject, "1", make([]byte, bytes)); !errors.Is(err, bus.ErrTooLarge) {
			t.Errorf("%d bytes on %s: %v", bytes, subject, err)
		}
		if err := node.Publish(ctx, subject, "2", nil); err != nil {
			t.Errorf("behind it on %s: %v", subject, err)
		}
	}
}

// TestFormerStreams: streams of a version that kept what was read are made anew.
func TestFormerStreams(t *testing.T) {
	b := newBed(t)
	if err := b.server.JetStream().DeleteStream(t.Context(), "R"); err != nil {
		t.Fatal(err)
	}
	_, err := b.server.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "R", Subjects: []string{"R.*"}, MaxMsgsPerSubject: 10000, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	b.Restart(t)
	s, err := b.server.JetStream().Stream(t.Context(), "R")
	if err != nil {
		t.Fatal(err)
	}
	if cfg := s.CachedInfo().Config; cfg.Retention != jetstream.WorkQueuePolicy || cfg.MaxBytes != quotas["R"].total {
		t.Errorf("%+v", cfg)
	}
}

// TestFloodingMember: a member that publishes faster than its pace is cut off for a
// while, and another's messages arrive meanwhile.
func TestFloodingMember(t *testing.T) {
	b := newBed(t)
	if err := b.server.Admit(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	hostile, err := b.raw(t, b.identity(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	flooding := time.Now()
	for sent := 0; !hostile.IsClosed() && time.Since(flooding) < 30*time.Second; sent++ {
		_ = hostile.Publish("M.b", make([]byte, 1000)) // its own, and it does not wait for an answer
		if sent%1000 == 0 {
			_ = hostile.FlushTimeout(time.Second)
		}
	}
	if !hostile.IsClosed() {
		t.Fatal("the flood was not stopped within 30 s")
	}
	t.Logf("cut off after %v", time.Since(flooding).Round(10*time.Millisecond))
	b.log.Wait(t, "node cut off the bus", "node=b")
	if _, err := b.raw(t, b.identity(t, "b")); err == nil {
		t.Error("was let in again at once")
	}
	b.log.Wait(t, "connection to the bus refused", "node=b", "published too much")
	got := newInboxOf(t, b, "R.*")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Node(t, "a", &bustest.CutDialer{}).Publish(ctx, "R.a", "1", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-got:
		if m.Subject != "R.a" {
			t.Errorf("got %+v", m)
		}
	case <-ctx.Done():
		t.Error("a's report has not arrived")
	}
}

// newInboxOf reads a topic until the test ends.
func newInboxOf(t *testing.T, b *bed, subject wire.Subject) <-chan bus.Delivery {
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan bus.Delivery, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.server.Subscribe(ctx, "reader", subject, func(_ context.Context, m bus.Delivery) error {
			got <- m
			return nil
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return got
}

// TestPace: what an honest node sends at its busiest is within its pace, and a node
// that was cut off is let in again.
func TestPace(t *testing.T) {
	p, now := newPace(), time.Unix(1e9, 0)
	conn := &server.ConnInfo{Cid: 7, AuthorizedUser: "a"}
	look := func(bytes, messages int64) bool {
		conn.InBytes, conn.InMsgs = conn.InBytes+bytes, conn.InMsgs+messages
		now = now.Add(lookInterval)
		return len(p.look([]*server.ConnInfo{conn}, now)) > 0
	}
	if look(60*500<<10+1000*2<<10, 60+1000) {
		t.Error("a node that comes back after a while with 60 profiles and 1,000 reports was cut off")
	}
	for range 4 * 3600 { // an hour of a node with 1,000 containers
		if look(30<<10, 2) {
			t.Fatal("a busy node was cut off")
		}
	}
	for n := 0; !look(1<<20, 50); n++ {
		if n > 100 {
			t.Fatal("4 MB a second for 25 s were let pass")
		}
	}
	if err := p.admits("a", now); err == nil {
		t.Error("was let in again at once")
	}
	if err := p.admits("b", now); err != nil {
		t.Errorf("another was refused: %v", err)
	}
	now = now.Add(outFor)
	if err := p.admits("a", now); err != nil {
		t.Errorf("is still refused after %v: %v", outFor, err)
	}
	p.look(nil, now.Add(10*time.Minute))
	if len(p.nodes) != 0 || len(p.conns) != 0 {
		t.Error("what is long gone is still counted")
	}
}

// size adds up the files below a folder.
func size(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && d.IsDir() {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}
