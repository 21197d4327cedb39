// SPDX-License-Identifier: Apache-2.0

package natsserver

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/cluster/bus/nats"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
	"weir/internal/test/logtest"
)

// bed is a server that can be restarted, with an authority.
type bed struct {
	authority pki.Authority
	dir       string
	listen    string
	server    *Server
	log       *logtest.Buffer
	gone      map[string]bool // nodes that are no members any more
}

func newBed(t *testing.T) *bed {
	t.Helper()
	a, err := pki.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{authority: a, dir: t.TempDir(), listen: "127.0.0.1:0", log: &logtest.Buffer{}, gone: map[string]bool{}}
	b.start(t)
	t.Cleanup(func() { b.server.Close() })
	return b
}

func (b *bed) start(t *testing.T) {
	t.Helper()
	var err error
	b.server, err = Serve(t.Context(), ServerOptions{
		Listen: b.listen, Dir: b.dir, Identity: b.identity(t, wire.Manager),
		Member: func(node string, _ *x509.Certificate) error {
			if b.gone[node] {
				return errors.New("is no member")
			}
			return nil
		},
		Log: slog.New(slog.NewTextHandler(b.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	b.listen = b.server.Addr().String()
}

func (b *bed) identity(t *testing.T, name string) pki.Identity {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	id := pki.Identity{Authority: b.authority.Cert, Key: key}
	if name == wire.Manager {
		id.Cert, err = b.authority.IssueManager(id.Public(), time.Now())
	} else {
		var request []byte
		if request, err = pki.Request(key); err == nil {
			id.Cert, err = b.authority.IssueNode(name, request, time.Now())
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (b *bed) Manager(*testing.T) bus.Admin { return b.server }

func (b *bed) Node(t *testing.T, name string, cable *bustest.CutDialer) bus.Bus {
	t.Helper()
	c, err := nats.DialBy(b.listen, b.identity(t, name), cable.Dial, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Restart ends the server and starts it anew from its files. That it may be killed as
// well is shown with a process of its own by the manager's tests.
func (b *bed) Restart(t *testing.T) {
	t.Helper()
	b.server.Close()
	time.Sleep(500 * time.Millisecond)
	b.start(t)
}

func TestBus(t *testing.T) { bustest.Run(t, newBed(t)) }

// raw connects with nothing between the test and the server.
func (b *bed) raw(t *testing.T, id pki.Identity) (*client.Conn, error) {
	t.Helper()
	c, err := client.Connect("tls://"+b.listen, client.Secure(id.Client(pki.ManagerName)), client.TLSHandshakeFirst(),
		client.CustomInboxPrefix(nats.Inbox(id.Name())), client.NoReconnect(), client.ErrorHandler(func(*client.Conn, *client.Subscription, error) {}))
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func TestStrangers(t *testing.T) {
	b := newBed(t)
	if _, err := b.raw(t, b.identity(t, "a")); err != nil {
		t.Errorf("a member was refused: %v", err)
	}
	t.Run("certificate of another cluster", func(t *testing.T) {
		other, err := pki.NewAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		id := (&bed{authority: other}).identity(t, "a")
		id.Authority = b.authority.Cert // trusts the server all the same
		if _, err := b.raw(t, id); err == nil {
			t.Error("was let in")
		}
		b.log.Wait(t, "TLS handshake error")
	})
	t.Run("no certificate", func(t *testing.T) {
		cfg := b.identity(t, "a").Client(pki.ManagerName)
		cfg.GetClientCertificate = nil
		if _, err := client.Connect("tls://"+b.listen, client.Secure(cfg), client.TLSHandshakeFirst(), client.NoReconnect()); err == nil {
			t.Error("was let in")
		}
		b.log.Wait(t, "TLS handshake error", "certificate")
	})
	t.Run("no TLS", func(t *testing.T) {
		if _, err := client.Connect("nats://"+b.listen, client.NoReconnect(), client.Timeout(time.Second)); err == nil {
			t.Error("was let in")
		}
	})
	t.Run("the manager's certificate is no node's", func(t *testing.T) {
		if _, err := b.raw(t, b.identity(t, wire.Manager)); err == nil {
			t.Error("was let in")
		}
		b.log.Wait(t, "connection to the bus refused", "is no node")
	})
	t.Run("the manager's name and a guessed password", func(t *testing.T) {
		id := b.identity(t, "a")
		c, err := client.Connect("tls://"+b.listen, client.Secure(id.Client(pki.ManagerName)), client.TLSHandshakeFirst(),
			client.UserInfo(wire.Manager, "x"), client.CustomInboxPrefix(nats.Inbox("a")), client.NoReconnect())
		if err != nil {
			t.Fatal(err) // its certificate counts
		}
		defer c.Close()
		denied(t, c, func() error { return c.Publish("L.a", nil) })
	})
	t.Run("removed", func(t *testing.T) {
		conn, err := b.raw(t, b.identity(t, "bad"))
		if err != nil {
			t.Fatal(err)
		}
		b.gone["bad"] = true
		if err := b.server.Remove(t.Context(), "bad"); err != nil {
			t.Fatal(err)
		}
		for n := 0; !conn.IsClosed() && n < 100; n++ {
			time.Sleep(50 * time.Millisecond)
		}
		if !conn.IsClosed() {
			t.Error("is still connected")
		}
		if _, err := b.raw(t, b.identity(t, "bad")); err == nil {
			t.Error("was let in again")
		}
		b.log.Wait(t, "connection to the bus refused", "node=bad", "is no member")
	})
}

// denied expects the server to refuse what a connection does.
func denied(t *testing.T, c *client.Conn, do func() error) {
	t.Helper()
	said := make(chan error, 10)
	c.SetErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) { said <- err })
	if err := do(); err != nil {
		t.Fatal(err)
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-said:
		if !errors.Is(err, client.ErrPermissionViolation) {
			t.Errorf("refused for another reason: %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("was not refused")
	}
}

// TestForgedMoves: a node cannot give orders, speak for another, listen to another,
// or read and change what the bus keeps.
func TestForgedMoves(t *testing.T) {
	b := newBed(t)
	for _, node := range []string{"a", "b"} {
		if err := b.server.Admit(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	c, err := b.raw(t, b.identity(t, "b"))
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan bus.Delivery, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go b.Node(t, "a", &bustest.CutDialer{}).Subscribe(ctx, "a", "L.a", func(_ context.Context, m bus.Delivery) error {
		got <- m
		return nil
	})
	for _, subject := range []string{"L.a", "L.b", "M.a", "H.a", "R.a", "_INBOX_a.x",
		"$JS.API.STREAM.INFO.L", "$JS.API.STREAM.PURGE.L", "$JS.API.STREAM.MSG.GET.L", "$JS.API.DIRECT.GET.L",
		"$JS.API.CONSUMER.CREATE.L.b", "$JS.API.CONSUMER.DELETE.L.a", "$JS.API.CONSUMER.MSG.NEXT.L.a",
		"$JS.ACK.L.a.1.1.1.1.1", "$SYS.REQ.SERVER.PING"} {
		t.Run("publish "+subject, func(t *testing.T) {
			denied(t, c, func() error { return c.PublishRequest(subject, nats.Inbox("b")+".1", []byte("forged")) })
		})
	}
	b.log.Wait(t, "Publish Violation", "L.a") // the first of its lines; TestRefusalsAreFewLines bounds them
	for _, subject := range []string{"L.a", "L.*", "L.b", "M.>", ">", "_INBOX_a.>", "_INBOX.>"} {
		t.Run("subscribe "+subject, func(t *testing.T) {
			denied(t, c, func() error { _, err := c.SubscribeSync(subject); return err })
		})
	}
	// What it may do works, and the connection has survived its refusals.
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"M.b", "H.b", "R.b"} {
		if _, err := js.Publish(t.Context(), subject, []byte("own")); err != nil {
			t.Errorf("%s: %v", subject, err)
		}
	}
	if err := b.server.Publish(t.Context(), "L.a", "1", []byte("honest")); err != nil {
		t.Fatal(err)
	}
	if m := <-got; string(m.Data) != "honest" {
		t.Errorf("a got %q first", m.Data)
	}
}

func TestRefusedPublish(t *testing.T) {
	b := newBed(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := b.Node(t, "b", &bustest.CutDialer{}).Publish(ctx, "L.a", "1", nil); !errors.Is(err, bus.ErrRefused) {
		t.Errorf("forged order: %v", err)
	}
}

func TestWrongAddress(t *testing.T) {
	b := newBed(t)
	for _, listen := range []string{"nonsense", "127.0.0.1:x"} {
		_, err := Serve(t.Context(), ServerOptions{Listen: listen, Dir: t.TempDir(), Identity: b.identity(t, wire.Manager), Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), listen) {
			t.Errorf("%q: %v", listen, err)
		}
	}
}
