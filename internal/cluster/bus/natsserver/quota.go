// SPDX-License-Identifier: Apache-2.0

package natsserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"weir/internal/cluster/bus"
	"weir/internal/core/wire"
)

// quota bounds what a topic takes. A message that was read and acknowledged is removed at
// once (work queue), so a quota counts the messages that no subscriber has read yet.
type quota struct {
	message int // bytes of one
	perNode int // messages of one node
	total   int64
	full    jetstream.DiscardPolicy // what happens to one more
}

// quotas of the topics. One node can fill message * perNode bytes of each topic that
// it writes: 8 MB of profiles and 20 MB of reports on the disk, 32 KB of heartbeats
// in memory. All together take the totals at most.
//
// Of profiles and heartbeats the newest count, so the oldest make room. A report that
// finds no room is refused, and its node keeps it and tries again. Orders are the
// manager's; the orders of a node that does not read them grow old, and are dropped
// first.
var quotas = map[wire.Topic]quota{
	wire.Profiles:   {message: wire.MaxMessage, perNode: 8, total: 128 << 20, full: jetstream.DiscardOld},
	wire.Heartbeats: {message: 16 << 10, perNode: 2, total: 64 << 20, full: jetstream.DiscardOld},
	wire.Reports:    {message: 64 << 10, perNode: 320, total: 128 << 20, full: jetstream.DiscardNew},
	wire.Orders:     {message: wire.MaxMessage, perNode: 256, total: 64 << 20, full: jetstream.DiscardOld},
}

// envelope bounds the bytes around a message: subject, id, headers.
const envelope = 1 << 10

// diskTotal returns what all streams can take on the disk, in bytes.
func diskTotal() (sum int64) {
	for topic, q := range quotas {
		if topic != wire.Heartbeats {
			sum += q.total
		}
	}
	return sum
}

// diskNeeded returns how much has to be free on the disk at the first start, in bytes:
// the server gives its streams three quarters of the free space.
func diskNeeded() int64 { return diskTotal() / 3 * 4 }

// streamConfig returns the configuration of a topic's stream.
func streamConfig(topic wire.Topic) jetstream.StreamConfig {
	q := quotas[topic]
	cfg := jetstream.StreamConfig{
		Name:                 string(topic),
		Subjects:             []string{string(topic.All())},
		Retention:            jetstream.WorkQueuePolicy,
		MaxAge:               bus.Keep(topic),
		MaxMsgSize:           int32(q.message + envelope),
		MaxMsgsPerSubject:    int64(q.perNode),
		MaxBytes:             q.total,
		Discard:              q.full,
		DiscardNewPerSubject: q.full == jetstream.DiscardNew,
		Duplicates:           min(2*time.Minute, bus.Keep(topic)), // of no use here, see idHeader
		Storage:              jetstream.FileStorage,
	}
	if topic == wire.Heartbeats {
		cfg.Storage = jetstream.MemoryStorage
	}
	return cfg
}

// streams makes one stream for each topic, or changes it to what it should be.
func (s *Server) streams(ctx context.Context) error {
	for _, topic := range wire.Topics {
		cfg := streamConfig(topic)
		err := s.renew(ctx, cfg)
		if err == nil {
			_, err = s.JetStream().CreateOrUpdateStream(ctx, cfg)
		}
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == insufficientStorage {
			return fmt.Errorf("stream %s: too little free disk at %s: the bus needs %d MB, of which it uses up to %d MB; make room there, or choose another --state-dir: %w",
				topic, s.opts.Dir, diskNeeded()/1e6, diskTotal()/1e6, err)
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", topic, err)
		}
	}
	return nil
}

const insufficientStorage jetstream.ErrorCode = 10047

// renew removes a stream of a former Weir that cannot be changed into cfg. What was in
// it is said again: orders and reports are in the database and in the nodes' journals.
func (s *Server) renew(ctx context.Context, cfg jetstream.StreamConfig) error {
	old, err := s.JetStream().Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if was := old.CachedInfo().Config; was.Retention == cfg.Retention {
		return nil
	}
	s.opts.Log.Info("stream of a former version is made anew", "component", "bus", "stream", cfg.Name)
	return s.JetStream().DeleteStream(ctx, cfg.Name)
}
