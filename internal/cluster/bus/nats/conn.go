// SPDX-License-Identifier: Apache-2.0

// Package nats connects a member to the bus by NATS JetStream. The server, which only the manager
// has, is package natsserver.
package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/pki"
	"weir/internal/core/wire"
)

const (
	connectTimeout = 5 * time.Second
	reconnectWait  = 500 * time.Millisecond // and up to as much again by chance, so that nodes do not come all at once
	ackTimeout     = 5 * time.Second        // of one attempt to publish
	ackWait        = 3 * time.Second        // after which an unacknowledged message comes again
	// maxPending messages are handed out before one is acknowledged: with more, those
	// that came while one was lost would come before it.
	maxPending    = 1
	pingInterval  = 10 * time.Second // two unanswered ones end a connection
	idleHeartbeat = 5 * time.Second  // of a consumer; two missing ones restart it
	// idHeader carries a message's ID. JetStream's own header would have the server
	// drop what has the ID of an earlier message of the same topic, whichever node
	// sent that: a node could use up another's. Here duplicates are the reader's.
	idHeader = "Weir-Id"
)

// Conn is a connection to the server.
type Conn struct {
	conn   *client.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	closed sync.Once
}

var _ bus.Bus = (*Conn)(nil)

// Dial connects a node to the server at address (host:port). If the server cannot be
// reached now, that is tried until Close.
func Dial(address string, id pki.Holder, log *slog.Logger) (*Conn, error) {
	return DialBy(address, id, (&net.Dialer{Timeout: connectTimeout}).Dial, log)
}

// Dialer makes the connections below TLS.
type Dialer func(network, address string) (net.Conn, error)

// Dial makes a function what the client's library wants.
func (d Dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// DialBy is Dial over connections that by makes.
func DialBy(address string, id pki.Holder, by Dialer, log *slog.Logger) (*Conn, error) {
	log = log.With("component", "bus")
	conn, err := client.Connect("tls://"+address,
		client.SetCustomDialer(by),
		client.Secure(id.Client(pki.ManagerName)),
		client.TLSHandshakeFirst(),
		client.Name(id.Name()),
		client.CustomInboxPrefix(Inbox(id.Name())),
		client.Timeout(connectTimeout),
		client.RetryOnFailedConnect(true),
		client.MaxReconnects(-1),
		client.ReconnectWait(reconnectWait),
		client.ReconnectJitter(reconnectWait, reconnectWait),
		client.ReconnectBufSize(-1), // Publish tries again itself
		client.PingInterval(pingInterval),
		client.IgnoreAuthErrorAbort(),
		client.DisconnectErrHandler(func(_ *client.Conn, err error) {
			if err != nil {
				log.Warn("lost the bus, trying again", "address", address, "err", err)
			}
		}),
		client.ReconnectHandler(func(*client.Conn) { log.Info("on the bus again", "address", address) }),
		client.ErrorHandler(func(_ *client.Conn, _ *client.Subscription, err error) {
			log.Warn("the bus says", "address", address, "err", err)
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("bus at %s: %w", address, err)
	}
	return New(conn, log)
}

// New makes a connection of one to the server that is there already.
func New(conn *client.Conn, log *slog.Logger) (*Conn, error) {
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(ackTimeout))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Conn{conn: conn, js: js, log: log}, nil
}

// JetStream returns the streams as this connection may use them.
func (c *Conn) JetStream() jetstream.JetStream { return c.js }

// Connected implements bus.Bus.
func (c *Conn) Connected() bool { return c.conn.IsConnected() }

// Close implements bus.Bus.
func (c *Conn) Close() error {
	c.closed.Do(c.conn.Close)
	return nil
}

// Publish implements bus.Bus.
func (c *Conn) Publish(ctx context.Context, subject wire.Subject, id string, data []byte) error {
	for pauses := bus.Pauses(); ; {
		attempt, cancel := context.WithTimeout(ctx, ackTimeout)
		m := client.NewMsg(string(subject))
		m.Data = data
		m.Header.Set(idHeader, id)
		_, err := c.js.PublishMsg(attempt, m, jetstream.WithRetryAttempts(0))
		cancel()
		switch {
		case err == nil:
			return nil
		case tooLarge(err):
			return fmt.Errorf("publish on %s: %w: %d bytes: %w", subject, bus.ErrTooLarge, len(data), err)
		case errors.Is(err, client.ErrConnectionClosed):
			return fmt.Errorf("publish on %s: %w", subject, err)
		case c.refused():
			return fmt.Errorf("publish on %s: %w: %w", subject, bus.ErrRefused, c.conn.LastError())
		case !pauses.Wait(ctx):
			return fmt.Errorf("publish on %s: %w", subject, err)
		}
	}
}

// tooLarge reports whether the server takes no message of this size, ever.
func tooLarge(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, client.ErrMaxPayload) || errors.As(err, &api) && api.ErrorCode == messageTooLarge
}

const messageTooLarge jetstream.ErrorCode = 10054

// refused reports whether the server last said that something is not allowed. It
// tells so beside the answer that is waited for and never comes.
func (c *Conn) refused() bool {
	err := c.conn.LastError()
	return err != nil && (errors.Is(err, client.ErrPermissionViolation) || strings.Contains(strings.ToLower(err.Error()), "permissions violation"))
}

// Consumer makes the durable consumer of a subject, which only the manager may.
func (c *Conn) Consumer(ctx context.Context, subject wire.Subject, durable string) error {
	letter, _, _ := strings.Cut(string(subject), ".")
	_, err := c.js.CreateOrUpdateConsumer(ctx, letter, jetstream.ConsumerConfig{
		Durable:       durable,
		FilterSubject: string(subject),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxAckPending: maxPending,
	})
	if err != nil {
		return fmt.Errorf("consumer %s of %s: %w", durable, subject, err)
	}
	return nil
}

// Subscribe implements bus.Bus. A node's own consumer was made by the manager; all
// others are made here, which only the manager may.
func (c *Conn) Subscribe(ctx context.Context, durable string, subject wire.Subject, handler bus.Handler) error {
	for pauses := bus.Pauses(); ctx.Err() == nil; {
		err := c.consume(ctx, durable, subject, handler)
		if ctx.Err() != nil {
			break
		}
		if errors.Is(err, client.ErrConnectionClosed) {
			return fmt.Errorf("subscription to %s: %w", subject, err)
		}
		c.log.Debug("subscription begins anew", "subject", subject, "err", err)
		if !pauses.Wait(ctx) {
			break
		}
	}
	return nil
}

func (c *Conn) consume(ctx context.Context, durable string, subject wire.Subject, handler bus.Handler) error {
	topic, node, _ := subject.Split()
	if topic != wire.Orders || node != durable {
		if err := c.Consumer(ctx, subject, durable); err != nil {
			return err
		}
	}
	letter, _, _ := strings.Cut(string(subject), ".")
	consumer, err := c.js.Consumer(ctx, letter, durable)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullHeartbeat(idleHeartbeat), jetstream.PullExpiry(30*time.Second))
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := messages.Next()
		if errors.Is(err, jetstream.ErrNoHeartbeat) && ctx.Err() == nil {
			continue // the connection is away; the iterator asks again when it is back
		}
		if err != nil {
			return err
		}
		in := bus.Delivery{Subject: wire.Subject(m.Subject()), ID: m.Headers().Get(idHeader), Data: m.Data()}
		if !deliver(ctx, m, in, handler) {
			return ctx.Err()
		}
		// An acknowledgement that is lost makes the message come again.
		if err := m.Ack(); err != nil {
			c.log.Debug("acknowledgement lost", "subject", in.Subject, "id", in.ID, "err", err)
		}
	}
}

// deliver keeps the message ours for as long as its handler takes.
func deliver(ctx context.Context, m jetstream.Msg, in bus.Delivery, handler bus.Handler) bool {
	done := make(chan struct{})
	defer close(done)
	slow := time.AfterFunc(ackWait/3, func() {
		tick := time.NewTicker(ackWait / 3)
		defer tick.Stop()
		for {
			_ = m.InProgress() // if that is lost, the message comes twice
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	defer slow.Stop()
	return bus.Deliver(ctx, in, handler)
}

// Inbox returns the prefix of the subjects at which a member takes answers.
func Inbox(member string) string { return "_INBOX_" + member }
