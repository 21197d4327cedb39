// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jonboulle/clockwork"

	"weir/internal/api"
	"weir/internal/cluster/bus/nats"
	"weir/internal/cluster/migrate"
	"weir/internal/cluster/move"
	"weir/internal/cluster/node/membership"
	"weir/internal/cluster/pki"
	"weir/internal/core/refusal"
	"weir/internal/core/wire"
)

// genuine returns an order for a move from a to b, sealed by the manager's own key.
func (c *cluster) genuine(id string) []byte {
	c.t.Helper()
	own, err := pki.LoadIdentity(filepath.Join(c.opts.Dir, "own"))
	if err != nil {
		c.t.Fatal(err)
	}
	now := time.Now()
	order := wire.Move{ID: id, Container: "web", From: "a", To: "b", Deadline: now.Add(time.Hour)}
	data, err := wire.SealOrder(own.Key, "L.a", id, now, wire.Term{Until: now.Add(time.Hour), Seq: uint64(now.UnixNano())}, &order)
	if err != nil {
		c.t.Fatal(err)
	}
	return data
}

// TestRemovedNodeCommandsNobody: an order that was genuine, and a connection that was
// open, do not help a node that was removed: its peers refuse it as soon as they have
// the next list of members, within 20 s.
func TestRemovedNodeCommandsNobody(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 100e6), c.node("b", 100e6)
	c.up(2)
	remote := a.moves.Target(wire.Move{To: "b", Address: b.listener.Addr().String()}, c.genuine("m"))
	if _, err := remote.Facts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.manager.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	removed := time.Now()
	var err error
	if !eventually(func() bool { _, err = remote.Facts(t.Context()); return err != nil }) {
		t.Fatal("a removed node still commands another one")
	}
	took := time.Since(removed)
	t.Logf("refused after %v: %v", took.Round(time.Millisecond), err)
	if took > time.Minute {
		t.Errorf("refused only after %v", took)
	}
	again := a.moves.Target(wire.Move{To: "b", Address: b.listener.Addr().String()}, c.genuine("m2"))
	for _, step := range []move.Step{move.Create, move.Discard, move.Confirm} {
		if _, err := again.Do(t.Context(), step, migrate.MoveSpec{Move: "m2", From: "a", To: "b", Container: migrate.Container{Name: "web"}}); err == nil {
			t.Errorf("%s of a removed node was served", step)
		}
	}
	b.log.Wait(t, "TLS handshake error", "node a is no member of this cluster")
}

// TestRemovedNodePublishesNothing: the bus ends its connection and takes it no more, and
// what it has sealed is refused whatever carries it, as Kafka would.
func TestRemovedNodePublishesNothing(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 100e6)
	c.up(1)
	conn, err := nats.Dial(c.opts.BusListen, a.members.Credentials(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !eventually(conn.Connected) {
		t.Fatal("not on the bus")
	}
	if _, err := c.manager.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return !conn.Connected() }) {
		t.Error("the bus did not end the connection of a removed node")
	}
	c.log.Wait(t, "connection to the bus refused", "node=a", "is no member")
	if conn.Connected() {
		t.Error("the bus took a removed node again")
	}
	data, err := wire.Seal(a.members.Identity().Key, "a", "H.a", "late", time.Now(), &wire.Heartbeat{Node: "a", Seq: 1e6})
	if err == nil {
		err = c.manager.Bus().Publish(t.Context(), "H.a", "late", data)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.log.Wait(t, "message refused", "subject=H.a", "is no member")
	if list, _ := c.manager.Nodes(t.Context()); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestRemovedNodePushesAndPullsNothing: neither by a connection that is open nor in the
// middle of an upload, and it gets no new certificate.
func TestRemovedNodePushesAndPullsNothing(t *testing.T) {
	c := newCluster(t)
	c.stop()
	c.opts.Registry = wire.OwnRegistry
	c.start()
	a := c.node("a", 100e6)
	c.node("b", 100e6)
	c.world.put("a", "web")
	gate := make(chan struct{})
	c.world.slow[move.Freeze] = gate
	t.Cleanup(func() { close(gate) })
	c.up(2)
	mv := c.underWay("web", "b") // so that a may push
	url := "https://" + c.opts.Listen + "/v2/"
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := a.members.Manager().HTTP.Get(url + path)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	if code, text := get(""); code != http.StatusOK {
		t.Fatalf("%d %s", code, text)
	}
	upload, ended := c.upload(a, url, mv)
	if _, err := upload.Write([]byte(strings.Repeat("x", 1<<20))); err != nil {
		t.Fatal(err)
	}
	if !eventually(c.uploading) {
		t.Fatal("the upload does not reach the registry")
	}
	go func() { // it goes on for as long as it is let
		for {
			if _, err := upload.Write([]byte(strings.Repeat("y", 1<<10))); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	if _, err := c.manager.RemoveNode(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	select {
	case how := <-ended:
		if strings.HasPrefix(how, "202") {
			t.Errorf("an upload of a removed node went through: %s", how)
		}
		t.Log("upload:", how)
	case <-time.After(30 * time.Second):
		t.Error("an upload of a removed node goes on")
	}
	upload.Close()
	c.log.Wait(t, "requests of a removed node are cut off", "node=a")
	for range 2 { // on a new connection, and on that one again
		if code, text := get(""); code != http.StatusForbidden || !strings.Contains(text, "is no member") {
			t.Errorf("pull: %d %s", code, text)
		}
	}
	err := a.members.Renew(t.Context())
	refusedAs(t, err, refusal.Denied, "is no member", "join again")
	c.log.Wait(t, "renewal refused", "node=a")
}

// uploading says whether the manager's registry has a part of an upload.
func (c *cluster) uploading() bool {
	c.t.Helper()
	found := false
	err := filepath.WalkDir(c.opts.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.Contains(path, "_uploads") || filepath.Base(path) != "data" {
			return nil // files come and go
		}
		info, err := d.Info()
		found = found || err == nil && info.Size() > 0
		return nil
	})
	return err == nil && found
}

// underWay orders a move and waits until its source is at it.
func (c *cluster) underWay(container, to string) string {
	c.t.Helper()
	var mv api.Move
	var err error
	if !eventually(func() bool {
		mv, err = c.manager.Migrate(c.t.Context(), api.MoveRequest{Container: container, To: to}, false)
		return err == nil
	}) {
		c.t.Fatal(err)
	}
	if !eventually(func() bool {
		mv, err = c.manager.Move(c.t.Context(), mv.ID)
		return err == nil && mv.State == "running"
	}) {
		c.t.Fatalf("%+v, %v", mv, err)
	}
	return mv.ID
}

// upload begins to push a blob; what it ends with comes on the channel.
func (c *cluster) upload(n *testNode, url, move string) (*io.PipeWriter, chan string) {
	c.t.Helper()
	resp, err := n.members.Manager().HTTP.Post(url+"weir-move/blobs/uploads/", "", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		c.t.Fatalf("upload for move %s: %s", move, resp.Status)
	}
	r, w := io.Pipe()
	req, err := http.NewRequest(http.MethodPatch, resp.Header.Get("Location"), r)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	ended := make(chan string, 1)
	go func() {
		resp, err := n.members.Manager().HTTP.Do(req)
		if err != nil {
			ended <- err.Error()
			return
		}
		resp.Body.Close()
		ended <- resp.Status
	}()
	return w, ended
}

// TestRenewalNeedsTheKey: a certificate is given to who has the member's key, for that
// key and for a request of now.
func TestRenewalNeedsTheKey(t *testing.T) {
	c := newCluster(t)
	a, b := c.node("a", 1e6), c.node("b", 1e6)
	own, err := pki.Request(a.members.Identity().Key)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.Request(b.members.Identity().Key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, r := range map[string]struct {
		key     *testNode
		from    string
		subject wire.Subject
		at      time.Time
		request []byte
		kind    refusal.Kind
		words   string
	}{
		"by another member's key": {b, "a", wire.RenewSubject, now, own, refusal.Denied, "not signed the request"},
		"for another key":         {a, "a", wire.RenewSubject, now, other, refusal.Denied, "another one has taken the place"},
		"recorded an hour ago":    {a, "a", wire.RenewSubject, now.Add(-time.Hour), own, refusal.Denied, "set the clocks"},
		"sealed for a report":     {a, "a", "R.a", now, own, refusal.Denied, "sealed for R.a"},
		"of no member":            {a, "x", wire.RenewSubject, now, own, refusal.Denied, "is no member"},
		"in order":                {a, "a", wire.RenewSubject, now, own, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sealed, err := wire.Seal(r.key.members.Identity().Key, r.from, r.subject, "r", r.at, &wire.RenewRequest{Request: r.request})
			if err != nil {
				t.Fatal(err)
			}
			_, err = membership.Ask[wire.JoinAnswer](t.Context(), membership.ManagerAt(c.opts.Listen, a.members.Credentials().Anonymous(pki.ManagerName)), http.MethodPost, "/v1/renew", wire.SealedRenewRequest{Sealed: sealed})
			if r.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refusedAs(t, err, r.kind, r.words)
		})
	}
}

// TestManagerWhoseCertificateHasEnded: a manager that starts after its certificate has
// ended makes a new one for the same key, and nodes join and stay.
func TestManagerWhoseCertificateHasEnded(t *testing.T) {
	c := newCluster(t)
	c.stop()
	authority, err := pki.LoadAuthority(c.opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.opts.Dir, "own")
	id, err := pki.LoadIdentity(own)
	if err != nil {
		t.Fatal(err)
	}
	if id.Cert, err = authority.IssueManager(id.Public(), time.Now().Add(-366*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := id.Save(own); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.node("a", 1e6)
	c.up(1)
	if after, err := pki.LoadIdentity(own); err != nil || !after.Key.Equal(id.Key) || time.Until(after.Cert.NotAfter) < pki.CertificateLife-time.Minute {
		t.Errorf("certificate until %v, %v", after.Cert.NotAfter, err)
	}
}

// TestStaleListBeginsNothing: with a list of members older than a minute no move begins
// at a target, one that was begun goes on, and what settles a move is always served.
func TestStaleListBeginsNothing(t *testing.T) {
	c := newCluster(t)
	clock := clockwork.NewFakeClockAt(time.Now())
	oa, ob := c.options("a"), c.options("b")
	ob.Clock = clock
	a, b := c.run(oa, newAgent(c.world, "a", 1e8)), c.run(ob, newAgent(c.world, "b", 1e8))
	c.up(2)
	address := b.listener.Addr().String()
	begun := a.moves.Target(wire.Move{To: "b", Address: address}, c.genuine("begun"))
	if _, err := begun.Facts(t.Context()); err != nil {
		t.Fatal(err)
	}
	late := a.moves.Target(wire.Move{To: "b", Address: address}, c.genuine("late"))
	m := c.hostileMove(a, b, orderOf("m-1", "web", "a", "b"))
	c.stop()
	clock.Advance(wire.MembersFresh - time.Second)
	if _, err := a.moves.Target(wire.Move{To: "b", Address: address}, c.genuine("early")).Facts(t.Context()); err != nil {
		t.Errorf("with a list of 59 s: %v", err)
	}
	clock.Advance(2 * time.Second)
	if _, err := late.Facts(t.Context()); err == nil || !strings.Contains(err.Error(), "list of members is older than 1m0s") {
		t.Errorf("a move began by a list that is too old: %v", err)
	}
	if _, err := begun.Facts(t.Context()); err != nil {
		t.Errorf("a move that was begun does not go on: %v", err)
	}
	grant, _ := granted(orderOf("late", "web", "a", "b"), time.Now().Add(time.Hour))
	unknown := m.step(move.Discard)
	unknown.permission = c.seal(c.managerKey(), "a", grant)
	m.want(http.StatusConflict, "a discard of a move that was not begun", unknown) // not for the list's age
	m.want(http.StatusOK, "a discard", m.step(move.Discard))
	if err := b.members.MayBegin(t.Context(), "a"); err == nil {
		t.Error("a source begins a move by a list that is too old")
	}
	c.start()
	if _, err := late.Facts(t.Context()); err != nil {
		t.Errorf("with the manager back: %v", err)
	}
}

// TestListGoesNotBack: a node knows its list after a restart, and takes none with a lower
// sequence (TestOlderListIsNotTaken); a manager whose clock or whose files went back goes on above
// it.
func TestListGoesNotBack(t *testing.T) {
	c := newCluster(t)
	a := c.node("a", 1e6)
	c.up(1)
	if !eventually(func() bool { return a.members.Sequence() > 0 }) {
		t.Fatal("no list of members")
	}
	before := a.members.Sequence()
	a.stop()
	again, err := membership.New(a.opts.membership(a.opts.Log), a.members.Identity())
	if err != nil || again.Sequence() != before {
		t.Fatalf("%d, %v", again.Sequence(), err)
	}
	if again.Age() < time.Hour {
		t.Error("a list of a former process counts as confirmed")
	}
	c.stop()
	c.opts.Clock = clockwork.NewFakeClockAt(time.Now().Add(-time.Minute))
	c.start()
	answer, err := c.manager.MemberList(0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := wire.Open(answer.Statement)
	var s wire.MembersStatement
	if err == nil {
		err = e.Read(&s)
	}
	if err != nil || s.Sequence <= before {
		t.Errorf("sequence %d after %d, %v", s.Sequence, before, err)
	}
}
