// SPDX-License-Identifier: Apache-2.0

// Package kafka is the bus by Apache Kafka, for clusters that have one, or that have
// outgrown the manager's own.
//
// Each subject is a topic with one partition, so that its order is kept: M.a is M_a,
// as in the C-Balancer paper. A subscriber is a consumer group with one static member
// (KIP-345): a process that starts under its name takes over at once where the former
// one stopped, whether that one said good-bye or not. The offsets of messages that
// the handler took are committed five times a second and at the end.
//
// Kafka does not know a node by its certificate of the cluster. Who a member is, and
// what it may do, is settled between Security (TLS, certificates, passwords; files
// that are read for each connection) and the brokers' access control lists, which
// docs/cluster.md shows: a node writes to its own topics and reads its own orders. The
// manager makes topics; a node never does, so that one that was removed makes none
// anew. A forged message is found out by its signature (package wire), on brokers
// without such lists as well.
package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/cluster/bus"
	"weir/internal/core/wire"
)

const (
	dialTimeout    = 5 * time.Second
	sessionTimeout = 10 * time.Second // of a group's member that does not answer
	requestTimeout = 10 * time.Second
	metadataMinAge = 200 * time.Millisecond
	metadataMaxAge = 2 * time.Second // how long a new node's topic may go unnoticed
	commitTimeout  = 3 * time.Second
	commitInterval = 200 * time.Millisecond // of offsets: what may come again after a crash
	forgetTries    = 10                     // to remove a group whose member comes back
	idHeader       = "weir-id"
)

// Bus is a connection to the brokers.
type Bus struct {
	brokers []string
	name    string
	secure  Security
	dial    dialFunc
	log     *slog.Logger
	client  *kgo.Client // produces and administers

	mu      sync.Mutex
	problem string
	made    map[wire.Subject]bool // topics that are known to exist
	done    context.Context
	end     context.CancelFunc
}

var _ bus.Admin = (*Bus)(nil)

// Dial makes a connection for the member called name (wire.Manager, or a node) to
// the brokers (host:port). Whether they can be reached shows when it is used.
func Dial(brokers []string, name string, secure Security, log *slog.Logger) (*Bus, error) {
	return dial(brokers, name, secure, (&net.Dialer{Timeout: dialTimeout}).DialContext, log)
}

func dial(brokers []string, name string, secure Security, by dialFunc, log *slog.Logger) (*Bus, error) {
	if err := secure.Check(); err != nil {
		return nil, err
	}
	b := &Bus{brokers: brokers, name: name, secure: secure, dial: secure.dialer(by), log: log.With("component", "bus"),
		made: map[wire.Subject]bool{}}
	b.done, b.end = context.WithCancel(context.Background())
	var err error
	b.client, err = b.connect(
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchMaxBytes(wire.MaxMessage+64<<10),
		kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, fmt.Errorf("bus at %s: %w", strings.Join(brokers, ","), err)
	}
	return b, nil
}

func (b *Bus) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append(b.secure.options(),
		kgo.SeedBrokers(b.brokers...),
		kgo.ClientID("weir-"+b.name),
		kgo.Dialer(b.dial),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MetadataMaxAge(metadataMaxAge),
		kgo.RetryTimeout(requestTimeout),
	), opts...)...)
}

// Connected implements bus.Bus.
func (b *Bus) Connected() bool {
	ctx, cancel := context.WithTimeout(b.done, time.Second)
	defer cancel()
	return b.Ping(ctx) == nil
}

// Ping asks the brokers for an answer. A Permanent error says what they refuse; it is
// logged when it is another than the last time.
func (b *Bus) Ping(ctx context.Context) error {
	err := b.secure.explain(b.client.Ping(ctx))
	problem := ""
	if Permanent(err) {
		problem = err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if problem != "" && problem != b.problem {
		b.log.Warn("the brokers refuse this member", "brokers", strings.Join(b.brokers, ","), "err", problem)
	}
	if err == nil || problem != "" {
		b.problem = problem
	}
	return err
}

// Problem says what the brokers refused at the last Ping, "" if nothing.
func (b *Bus) Problem() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problem
}

// Close implements bus.Bus. Groups are not left: their members are static.
func (b *Bus) Close() error {
	b.end()
	b.client.Close()
	return nil
}

// topic returns Kafka's name of a subject: Kafka's names have no dots beside underscores.
func topic(s wire.Subject) string { return strings.Replace(string(s), ".", "_", 1) }

func subject(topic string) wire.Subject { return wire.Subject(strings.Replace(topic, "_", ".", 1)) }

// Admit implements bus.Admin.
func (b *Bus) Admit(ctx context.Context, node string) error {
	for _, t := range wire.Topics {
		if err := b.ensure(ctx, t.Of(node)); err != nil {
			return err
		}
	}
	return nil
}

// ensure makes a subject's topic if there is none. Only the manager does.
func (b *Bus) ensure(ctx context.Context, s wire.Subject) error {
	if b.name != wire.Manager {
		return nil
	}
	b.mu.Lock()
	made := b.made[s]
	b.mu.Unlock()
	if made {
		return nil
	}
	letter, _, ok := s.Split()
	if !ok {
		return fmt.Errorf("%s is no subject of one node", s)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = int32(requestTimeout / time.Millisecond)
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic(s), 1, -1 // the broker's default
	for key, value := range map[string]string{
		"retention.ms":      strconv.FormatInt(bus.Keep(letter).Milliseconds(), 10),
		"max.message.bytes": strconv.Itoa(wire.MaxMessage + 64<<10),
	} {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = key, kmsg.StringPtr(value)
		t.Configs = append(t.Configs, c)
	}
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return fmt.Errorf("topic %s: %w", t.Topic, b.secure.explain(err))
	}
	for _, made := range response.Topics {
		if err := kerr.ErrorForCode(made.ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("topic %s: %w", made.Topic, b.secure.explain(err))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made[s] = true
	return nil
}

// Remove implements bus.Admin.
func (b *Bus) Remove(ctx context.Context, node string) error {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = int32(requestTimeout / time.Millisecond)
	for _, letter := range wire.Topics {
		t := kmsg.NewDeleteTopicsRequestTopic()
		name := topic(letter.Of(node))
		t.Topic = &name
		request.Topics = append(request.Topics, t)
		request.TopicNames = append(request.TopicNames, name)
		b.unmake(letter.Of(node))
	}
	response, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return fmt.Errorf("remove the topics of %s: %w", node, b.secure.explain(err))
	}
	for _, gone := range response.Topics {
		if err := kerr.ErrorForCode(gone.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("remove the topics of %s: %w", node, b.secure.explain(err))
		}
	}
	return b.forget(ctx, group(node, wire.Orders.Of(node)), node)
}

// unmake forgets that subjects have topics: one of the same name made anew is another.
func (b *Bus) unmake(subjects ...wire.Subject) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range subjects {
		delete(b.made, s)
		b.client.PurgeTopicsFromProducing(topic(s))
	}
}

// forget removes a group with its offsets: a topic that is made anew begins at 0. A
// member that is still there is thrown out first.
func (b *Bus) forget(ctx context.Context, name, member string) error {
	for n := 0; ; n++ {
		err := b.deleteGroup(ctx, name)
		if !errors.Is(err, kerr.NonEmptyGroup) || n == forgetTries {
			return err
		}
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group = name
		m := kmsg.NewLeaveGroupRequestMember()
		m.InstanceID = &member
		leave.Members = append(leave.Members, m)
		// Whether it helps shows at the next try: the member may come back in between.
		_, _ = leave.RequestWith(ctx, b.client)
	}
}

func (b *Bus) deleteGroup(ctx context.Context, name string) error {
	request := kmsg.NewPtrDeleteGroupsRequest()
	request.Groups = []string{name}
	response, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return fmt.Errorf("remove group %s: %w", name, err)
	}
	for _, g := range response.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
			return fmt.Errorf("remove group %s: %w", name, b.secure.explain(err))
		}
	}
	return nil
}

// Publish implements bus.Bus.
func (b *Bus) Publish(ctx context.Context, s wire.Subject, id string, data []byte) error {
	for pauses := bus.Pauses(); ; {
		err := b.publish(ctx, s, id, data)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, kgo.ErrClientClosed):
			return fmt.Errorf("publish on %s: %w", s, err)
		case denied(err):
			return fmt.Errorf("publish on %s: %w", s, b.secure.explain(err))
		case errors.Is(err, kerr.MessageTooLarge):
			return fmt.Errorf("publish on %s: %w: %d bytes: %w", s, bus.ErrTooLarge, len(data), err)
		case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.UnknownTopicID): // removed meanwhile
			b.unmake(s)
		}
		if !pauses.Wait(ctx) {
			return fmt.Errorf("publish on %s: %w", s, b.secure.explain(err))
		}
	}
}

func (b *Bus) publish(ctx context.Context, s wire.Subject, id string, data []byte) error {
	if err := b.ensure(ctx, s); err != nil {
		return err
	}
	return b.client.ProduceSync(ctx, &kgo.Record{Topic: topic(s), Value: data,
		Headers: []kgo.RecordHeader{{Key: idHeader, Value: []byte(id)}}}).FirstErr()
}

func group(durable string, s wire.Subject) string {
	letter, _, _ := strings.Cut(string(s), ".")
	return "weir-" + durable + "-" + letter
}

// Subscribe implements bus.Bus.
func (b *Bus) Subscribe(ctx context.Context, durable string, s wire.Subject, handler bus.Handler) error {
	for pauses := bus.Pauses(); ctx.Err() == nil && b.done.Err() == nil; {
		if err := b.consume(ctx, durable, s, handler); err != nil && ctx.Err() == nil {
			b.log.Warn("subscription begins anew", "subject", s, "err", b.secure.explain(err))
			if !pauses.Wait(ctx) {
				break
			}
		}
	}
	return nil
}

func (b *Bus) consume(ctx context.Context, durable string, s wire.Subject, handler bus.Handler) error {
	opts := []kgo.Opt{
		kgo.ConsumerGroup(group(durable, s)),
		kgo.InstanceID(durable),
		kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(sessionTimeout / 5),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(commitInterval),
		kgo.FetchMaxWait(500 * time.Millisecond),
	}
	if letter, all := strings.CutSuffix(string(s), ".*"); all {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+regexp.QuoteMeta(letter)+"_.*$"))
	} else {
		if err := b.ensure(ctx, s); err != nil {
			return err
		}
		opts = append(opts, kgo.ConsumeTopics(topic(s)))
	}
	client, err := b.connect(opts...)
	if err != nil {
		return err
	}
	defer b.finish(client)
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() || b.done.Err() != nil {
			return nil
		}
		var failed error
		fetches.EachError(func(topic string, _ int32, err error) {
			switch {
			case errors.Is(err, kerr.FencedInstanceID):
				failed = fmt.Errorf("another %s consumes %s: %w", durable, s, err)
			case denied(err):
				failed = err
			case kerr.IsRetriable(err) || errors.Is(err, context.DeadlineExceeded):
			default:
				b.log.Warn("the bus says", "topic", topic, "err", b.secure.explain(err))
			}
		})
		if failed != nil {
			return failed
		}
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			in := bus.Delivery{Subject: subject(r.Topic), Data: r.Value}
			for _, h := range r.Headers {
				if h.Key == idHeader {
					in.ID = string(h.Value)
				}
			}
			if !bus.Deliver(ctx, in, handler) {
				return nil
			}
			client.MarkCommitRecords(r)
		}
	}
}

// finish ends a subscription's client. What cannot be committed comes again.
func (b *Bus) finish(client *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
	defer cancel()
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		b.log.Debug("offsets not committed, messages may come again", "err", err)
	}
	client.Close()
}
