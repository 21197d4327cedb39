// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"

	"weir/internal/base/tlsfile"
)

// database is the name of Open vSwitch's.
const database = "Open_vSwitch"

// The tables, with the columns that are read. The tags are libovsdb's.
type (
	bridgeRow struct {
		UUID  string   `ovsdb:"_uuid"`
		Name  string   `ovsdb:"name"`
		Ports []string `ovsdb:"ports"`
	}
	portRow struct {
		UUID       string   `ovsdb:"_uuid"`
		Name       string   `ovsdb:"name"`
		Interfaces []string `ovsdb:"interfaces"`
		QoS        *string  `ovsdb:"qos"`
	}
	interfaceRow struct {
		UUID string `ovsdb:"_uuid"`
		Name string `ovsdb:"name"`
		Type string `ovsdb:"type"`
	}
	qosRow struct {
		UUID        string            `ovsdb:"_uuid"`
		Type        string            `ovsdb:"type"`
		OtherConfig map[string]string `ovsdb:"other_config"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
		Queues      map[int]string    `ovsdb:"queues"`
	}
	queueRow struct {
		UUID        string            `ovsdb:"_uuid"`
		DSCP        *int              `ovsdb:"dscp"`
		OtherConfig map[string]string `ovsdb:"other_config"`
		ExternalIDs map[string]string `ovsdb:"external_ids"`
	}
)

// Conn is a connection to a database and a copy of its tables. Its methods may be called
// from any goroutine.
type Conn struct {
	address string
	relay   *relay
	rows    atomic.Int64 // of all tables
	client  client.Client
	changed chan struct{}
	lost    chan struct{}
}

// Dial connects to "unix:PATH", "tcp:HOST:PORT" or "ssl:HOST:PORT" and reads the
// tables. files are for ssl.
func Dial(ctx context.Context, address string, files tlsfile.Files) (*Conn, error) {
	c := &Conn{address: address, changed: make(chan struct{}, 1), lost: make(chan struct{})}
	tables, err := model.NewClientDBModel(database, map[string]model.Model{
		"Bridge": &bridgeRow{}, "Port": &portRow{}, "Interface": &interfaceRow{}, "QoS": &qosRow{}, "Queue": &queueRow{},
	})
	if err != nil {
		return nil, c.failed(err)
	}
	if c.relay, err = newRelay(ctx, address, files); err != nil {
		return nil, c.failed(err)
	}
	if c.client, err = client.NewOVSDBClient(tables, client.WithEndpoint(c.relay.endpoint)); err == nil {
		err = c.client.Connect(ctx)
	}
	if err != nil {
		c.relay.close()
		return nil, c.failed(err)
	}
	go func() {
		<-c.client.DisconnectNotify()
		close(c.lost)
	}()
	c.client.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(string, model.Model) { c.count(1); c.note() },
		UpdateFunc: func(string, model.Model, model.Model) { c.note() },
		DeleteFunc: func(string, model.Model) { c.count(-1); c.note() },
	})
	if err := c.monitor(ctx); err != nil {
		c.Close()
		return nil, c.failed(err)
	}
	return c, nil
}

// monitor asks for the columns of the models and no others: the statistics of
// all interfaces change every few seconds.
func (c *Conn) monitor(ctx context.Context) error {
	bridge, port, iface, qos, queue := &bridgeRow{}, &portRow{}, &interfaceRow{}, &qosRow{}, &queueRow{}
	_, err := c.client.Monitor(ctx, c.client.NewMonitor(
		client.WithTable(bridge, &bridge.Name, &bridge.Ports),
		client.WithTable(port, &port.Name, &port.Interfaces, &port.QoS),
		client.WithTable(iface, &iface.Name, &iface.Type),
		client.WithTable(qos, &qos.Type, &qos.OtherConfig, &qos.ExternalIDs, &qos.Queues),
		client.WithTable(queue, &queue.DSCP, &queue.OtherConfig, &queue.ExternalIDs),
	))
	return err
}

// count follows how many rows there are, and ends a connection with too many.
func (c *Conn) count(more int64) {
	if c.rows.Add(more) > maxRows {
		c.relay.end(fmt.Errorf("more than %d rows", maxRows))
	}
}

// failed returns an error with the database's address.
func (c *Conn) failed(err error) error {
	if c.relay != nil && c.relay.why() != nil {
		return fmt.Errorf("ovsdb %s: %w", c.address, c.relay.why())
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	if errors.Is(err, client.ErrNotConnected) {
		err = errors.New("the connection is lost; is ovsdb-server running?")
	}
	return fmt.Errorf("ovsdb %s: %w", c.address, err)
}

func (c *Conn) note() {
	select {
	case c.changed <- struct{}{}:
	default: // the receiver has not looked yet
	}
}

// Changed returns a channel with a value when the tables may have changed since the last
// one.
func (c *Conn) Changed() <-chan struct{} { return c.changed }

// Lost returns a channel that is closed when the connection is gone.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Alive asks the database for an answer.
func (c *Conn) Alive(ctx context.Context) error {
	if err := c.client.Echo(ctx); err != nil {
		return c.failed(err)
	}
	return nil
}

// Close ends the connection.
func (c *Conn) Close() {
	c.client.Close()
	c.relay.close()
}

// Snapshot returns the present content of the copy.
func (c *Conn) Snapshot(ctx context.Context) (Snapshot, error) {
	// Each table is read at a moment of its own, so that an update may come
	// between two. In the database itself every reference leads to a row.
	const tries, pause = 100, 10 * time.Millisecond
	for range tries {
		s, whole, err := c.read(ctx)
		if err != nil || whole {
			return s, err
		}
		select {
		case <-ctx.Done():
			return Snapshot{}, c.failed(ctx.Err())
		case <-time.After(pause):
		}
	}
	return Snapshot{}, c.failed(errors.New("its rows refer to rows that are not there"))
}

// read puts the tables together; whole says that all references lead somewhere.
func (c *Conn) read(ctx context.Context) (s Snapshot, whole bool, err error) {
	var (
		bridges    []bridgeRow
		ports      []portRow
		interfaces []interfaceRow
		qos        []qosRow
		queues     []queueRow
	)
	for _, list := range []any{&bridges, &ports, &interfaces, &qos, &queues} {
		if err := c.client.List(ctx, list); err != nil {
			return Snapshot{}, false, c.failed(err)
		}
	}
	if !c.client.Connected() {
		return Snapshot{}, false, c.failed(client.ErrNotConnected)
	}
	s, whole = assemble(bridges, ports, interfaces, qos, queues)
	return s, whole, nil
}

// assemble follows the references between rows, and says whether all lead
// somewhere.
func assemble(bridges []bridgeRow, ports []portRow, interfaces []interfaceRow, qos []qosRow, queues []queueRow) (s Snapshot, whole bool) {
	whole = true
	portOf, interfaceOf := map[string]portRow{}, map[string]interfaceRow{}
	queueOf, qosOf := map[string]queueRow{}, map[string]*QoS{}
	for _, r := range ports {
		portOf[r.UUID] = r
	}
	for _, r := range interfaces {
		interfaceOf[r.UUID] = r
	}
	for _, r := range queues {
		queueOf[r.UUID] = r
	}
	for _, r := range qos {
		qosOf[r.UUID] = r.with(queueOf)
		whole = whole && len(qosOf[r.UUID].Queues) == len(r.Queues)
	}
	used := map[string]bool{}
	s.QoS = qosOf
	for _, b := range bridges {
		bridge := Bridge{Name: b.Name}
		for _, id := range b.Ports {
			r, ok := portOf[id]
			if !ok {
				whole = false
				continue
			}
			port := Port{UUID: r.UUID, Bridge: b.Name, Name: r.Name}
			for _, id := range r.Interfaces {
				if i, ok := interfaceOf[id]; ok {
					port.Interfaces = append(port.Interfaces, Interface{Name: i.Name, Type: i.Type})
				}
			}
			if r.QoS != nil {
				port.QoS = qosOf[*r.QoS]
				used[*r.QoS] = true
				whole = whole && port.QoS != nil
			}
			whole = whole && len(port.Interfaces) == len(r.Interfaces)
			bridge.Ports = append(bridge.Ports, port)
		}
		slices.SortFunc(bridge.Ports, func(a, b Port) int { return cmp.Compare(a.Name, b.Name) })
		s.Bridges = append(s.Bridges, bridge)
	}
	slices.SortFunc(s.Bridges, func(a, b Bridge) int { return cmp.Compare(a.Name, b.Name) })
	for id, q := range qosOf {
		if q.Own() && !used[id] {
			s.Orphans = append(s.Orphans, *q)
		}
	}
	slices.SortFunc(s.Orphans, func(a, b QoS) int { return cmp.Compare(a.UUID, b.UUID) })
	return s, whole
}

func (r qosRow) with(queues map[string]queueRow) *QoS {
	q := &QoS{UUID: r.UUID, Type: r.Type, OtherConfig: r.OtherConfig, ExternalIDs: r.ExternalIDs, Queues: map[int]Queue{}}
	for n, id := range r.Queues {
		if row, ok := queues[id]; ok {
			q.Queues[n] = Queue(row)
		}
	}
	return q
}
