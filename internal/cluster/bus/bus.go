// SPDX-License-Identifier: Apache-2.0

// Package bus carries the messages of a cluster (package wire) between the nodes
// and their manager, and keeps them for a member that is away.
//
// Two buses do it: NATS JetStream (package bus/nats, its server embedded in the
// manager, nothing to install) and Apache Kafka (package bus/kafka). Both promise
// the same, and one suite of tests (package bus/bustest) holds them to it:
//
//   - Publish returns when the bus has the message, or when its context ends. It
//     goes on trying while the bus cannot be reached, so a message that it
//     returned an error for may be there all the same.
//   - Subscribe hands every message of a subject to its handler, in the order in
//     which they were published there, at least once: what a handler has not
//     taken comes again, also after a restart of the subscriber or of the bus.
//     A subscriber that was cut off gets what came meanwhile.
//   - A message may come twice. Its ID says so; Once drops what came already,
//     and what has to survive a restart of the subscriber is up to the handler.
//
// Keep says how long the bus keeps messages for a member that is away.
package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"weir/internal/base/retry"
	"weir/internal/core/wire"
)

// Delivery is a message that arrived.
type Delivery struct {
	Subject wire.Subject // on which it arrived, without wildcards
	ID      string       // as its publisher gave it
	Data    []byte
}

// Handler takes a message. One that it returns an error for comes again after a
// pause, and holds up those behind it: return nil for what will never be of use.
type Handler func(ctx context.Context, m Delivery) error

// Bus is a connection to a bus. It is safe for use by several goroutines.
type Bus interface {
	// Publish sends a message to one subject. id is the same if it is sent again.
	Publish(ctx context.Context, subject wire.Subject, id string, data []byte) error
	// Subscribe hands messages to handler, one after the other, until ctx ends; then
	// it returns nil. durable names the subscriber: where it stopped, the next of
	// that name goes on. A subject is that of one node, or all of a topic
	// (wire.Topic.All). It goes on while the bus cannot be reached.
	Subscribe(ctx context.Context, durable string, subject wire.Subject, handler Handler) error
	// Connected reports whether the bus was in reach a moment ago.
	Connected() bool
	Close() error
}

// Admin prepares the bus for nodes; the manager's connection has it.
type Admin interface {
	Bus
	// Admit makes what a node needs on the bus. It may be called again.
	Admit(ctx context.Context, node string) error
	// Remove forgets a node, and what waits for it.
	Remove(ctx context.Context, node string) error
}

// Keep returns how long the bus keeps messages of a topic for a subscriber that is away.
// Profiles and heartbeats are worth little when they are old, and there are many.
func Keep(t wire.Topic) time.Duration {
	switch t {
	case wire.Heartbeats:
		return time.Minute
	case wire.Profiles:
		return 5 * time.Minute
	}
	return 7 * 24 * time.Hour
}

// Kinds of buses.
const (
	NATS  = "nats"
	Kafka = "kafka"
)

// Address says which bus a cluster uses and where it is.
type Address struct {
	Kind  string   `json:"kind" enum:"nats,kafka"`
	Hosts []string `json:"hosts" doc:"host:port of each; for nats, :port stands for the manager's host"`
}

// Parse reads "nats" (embedded in the manager) or "kafka://HOST:PORT,HOST:PORT".
func Parse(text string) (Address, error) {
	if text == "" || text == NATS {
		return Address{Kind: NATS}, nil
	}
	list, ok := strings.CutPrefix(text, Kafka+"://")
	if !ok {
		return Address{}, fmt.Errorf("bus %q: not known; write nats (embedded in the manager) or kafka://HOST:PORT,HOST:PORT", text)
	}
	a := Address{Kind: Kafka}
	for host := range strings.SplitSeq(strings.TrimSuffix(list, "/"), ",") {
		if h, port, err := net.SplitHostPort(host); err != nil || h == "" || port == "" {
			return Address{}, fmt.Errorf("bus %q: %q is no HOST:PORT; write kafka://HOST:PORT,HOST:PORT", text, host)
		}
		a.Hosts = append(a.Hosts, host)
	}
	return a, nil
}

// String returns the address as Parse reads it.
func (a Address) String() string {
	if a.Kind == Kafka {
		return Kafka + "://" + strings.Join(a.Hosts, ",")
	}
	return NATS
}

// ErrRefused is wrapped by the error of a bus that does not let this member do what
// it asked: it is no member any more, or the subject belongs to another member.
var ErrRefused = errors.New("the bus refused")

// ErrTooLarge is wrapped by the error of a message that the bus never takes. It is of
// no use to try again.
var ErrTooLarge = errors.New("the message is too large for the bus")

// LongestPause is the longest one between two attempts.
const LongestPause = 5 * time.Second

// Pauses returns those between attempts to reach the manager or the bus: 100 ms at
// first, then twice as long each time up to LongestPause.
func Pauses() *retry.Pauses { return retry.New(100*time.Millisecond, LongestPause) }

// Deliver hands a message to its handler until it takes it. It is false if ctx ended
// before.
func Deliver(ctx context.Context, m Delivery, handler Handler) bool {
	for pauses := Pauses(); handler(ctx, m) != nil; {
		if !pauses.Wait(ctx) {
			return false
		}
	}
	return true
}

// Once drops messages whose subject and ID are among the last many that handler
// took. Memory only: see the package's comment.
func Once(many int, handler Handler) Handler {
	type key struct {
		subject wire.Subject
		id      string
	}
	seen := make(map[key]bool, many)
	order := make([]key, 0, many)
	return func(ctx context.Context, m Delivery) error {
		k := key{m.Subject, m.ID}
		if seen[k] {
			return nil
		}
		if err := handler(ctx, m); err != nil {
			return err
		}
		if len(order) == many {
			delete(seen, order[0])
			order = order[1:]
		}
		seen[k], order = true, append(order, k)
		return nil
	}
}
