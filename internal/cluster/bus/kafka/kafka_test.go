// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/bustest"
	"weir/internal/core/wire"
)

// bed is a real broker.
type bed struct{ *bustest.Broker }

func newBed(t *testing.T) *bed { return &bed{bustest.StartBroker(t)} }

func (b *bed) Manager(t *testing.T) bus.Admin {
	t.Helper()
	return b.connect(t, wire.Manager, &bustest.CutDialer{})
}

func (b *bed) Node(t *testing.T, name string, cable *bustest.CutDialer) bus.Bus {
	t.Helper()
	return b.connect(t, name, cable)
}

func (b *bed) connect(t *testing.T, name string, cable *bustest.CutDialer) *Bus {
	t.Helper()
	c, err := dial([]string{b.Address}, name, Security{},
		func(_ context.Context, network, address string) (net.Conn, error) {
			return cable.Dial(network, address)
		},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestBus(t *testing.T) { bustest.Run(t, newBed(t)) }

// TestNoBroker: what cannot be reached is said within the time that is given, and
// closing does not hang.
func TestNoBroker(t *testing.T) {
	b := &bed{&bustest.Broker{Address: "127.0.0.1:1"}} // where no server listens
	c := b.connect(t, "a", &bustest.CutDialer{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- c.Subscribe(ctx, "a", "L.a", func(context.Context, bus.Delivery) error { return nil })
	}()
	begun := time.Now()
	err := c.Publish(ctx, "M.a", "1", nil)
	if err == nil || time.Since(begun) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(begun), err)
	}
	if c.Connected() {
		t.Error("is connected")
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(15 * time.Second):
		t.Error("the subscription hangs")
	}
	c.Close()
}
