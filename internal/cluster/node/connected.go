// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"weir/internal/base/retry"
	"weir/internal/cluster/bus"
	"weir/internal/cluster/bus/kafka"
	"weir/internal/cluster/bus/nats"
	"weir/internal/cluster/node/membership"
	"weir/internal/core/wire"
)

// dial connects to the bus.
func (n *Node) dial(info wire.Info) (bus.Bus, error) {
	address, err := bus.Parse(info.Bus)
	if err != nil {
		return nil, err
	}
	if address.Kind == bus.Kafka {
		return kafka.Dial(address.Hosts, n.opts.Name, n.opts.Kafka, n.log)
	}
	host, _, err := net.SplitHostPort(n.opts.Manager)
	if err != nil {
		return nil, err
	}
	return nats.Dial(net.JoinHostPort(host, strconv.Itoa(info.BusPort)), n.members.Credentials(), n.log)
}

// talk speaks and listens on the bus until ctx ends or the manager says that it is
// elsewhere.
func (n *Node) talk(ctx context.Context, info wire.Info) {
	b, err := n.dial(info)
	if err != nil {
		n.log.Error("bus", "err", err)
		retry.New(bus.LongestPause, bus.LongestPause).Wait(ctx)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { n.opts.standing.follow(ctx, b) })
	running.Go(func() { n.beat(ctx, b) })
	running.Go(func() {
		n.reports.run(ctx, n.post(b))
	})
	running.Go(func() {
		n.profiles.run(ctx, n.post(b))
	})
	running.Go(func() {
		if err := b.Subscribe(ctx, n.opts.Name, wire.Orders.Of(n.opts.Name), n.onOrder); err != nil {
			n.log.Error("orders cannot be received", "err", err)
		}
	})
	n.log.Info("part of a cluster", "manager", n.opts.Manager, "name", n.opts.Name, "bus", info.Bus)
	n.watch(ctx, b, info)
	cancel()
	b.Close()
	running.Wait()
}

// post publishes letters. One that the bus never takes is given up, with an error in
// the log, so that it does not hold up those behind it.
func (n *Node) post(b bus.Bus) func(context.Context, letter) error {
	return func(ctx context.Context, l letter) error {
		err := b.Publish(ctx, l.Subject, l.ID, l.Data)
		if errors.Is(err, bus.ErrTooLarge) {
			n.log.Error("message given up", "subject", l.Subject, "err", err)
			return nil
		}
		return err
	}
}

// watch looks now and then whether the manager's bus is still where it was. It returns
// when something is to be done anew.
func (n *Node) watch(ctx context.Context, b bus.Bus, info wire.Info) {
	tick := time.NewTicker(infoInterval / 4)
	defer tick.Stop()
	for count := 1; ; count++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if b.Connected() && count%4 != 0 {
			continue
		}
		now, err := membership.Ask[wire.Info](ctx, n.members.Manager(), http.MethodGet, "/v1/info", nil)
		if err != nil && ctx.Err() == nil {
			n.opts.standing.failed(err)
		}
		if err == nil && !sameBus(now, info) {
			n.log.Info("the manager has changed its bus", "bus", now.Bus)
			return
		}
	}
}

// sameBus reports whether two answers of the manager name the same bus and registry.
func sameBus(a, b wire.Info) bool {
	return a.Bus == b.Bus && a.BusPort == b.BusPort && a.Registry == b.Registry
}

// beat sends heartbeats. One that does not arrive in time is not worth sending again.
func (n *Node) beat(ctx context.Context, b bus.Bus) {
	tick := time.NewTicker(n.opts.Heartbeat)
	defer tick.Stop()
	for {
		h := n.heartbeat(n.beats.Add(1))
		subject := wire.Heartbeats.Of(n.opts.Name)
		id := fmt.Sprintf("%s-%d-%d", n.opts.Name, n.started.UnixNano(), h.Seq)
		data, err := n.members.Seal(subject, id, &h)
		if err == nil {
			once, cancel := context.WithTimeout(ctx, n.opts.Heartbeat)
			err = b.Publish(once, subject, id, data)
			cancel()
		}
		if err != nil && ctx.Err() == nil {
			n.log.Debug("heartbeat lost", "err", err)
			if errors.Is(err, bus.ErrRefused) {
				n.log.Error("the bus does not take this node's heartbeats; was it removed from the cluster?", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *Node) heartbeat(seq uint64) wire.Heartbeat {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := wire.Heartbeat{Node: n.opts.Name, Seq: seq, Started: n.started.UTC(), Weir: n.opts.Version, Kernel: kernel(), Draining: n.draining,
		CRIU: n.facts.CRIU, Moves: n.moves.Running()}
	if n.facts.Engine != "" {
		h.Engines = []wire.Engine{{Name: n.facts.Engine, Version: n.facts.EngineVersion}}
	}
	if n.listener != nil {
		h.Address = n.advertised()
	}
	return h
}
