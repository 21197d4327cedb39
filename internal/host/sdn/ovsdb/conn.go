// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"weir/internal/base/tlsfile"
)

// database is the name of Open vSwitch's.
const database = "Open_vSwitch"

// The tables, with the columns that are read.
type (
	bridgeRow struct {
		Name  string         `json:"name"`
		Ports set[reference] `json:"ports"`
	}
	portRow struct {
		Name       string         `json:"name"`
		Interfaces set[reference] `json:"interfaces"`
		QoS        set[reference] `json:"qos"` // at most one
	}
	interfaceRow struct {
		Name string `json:"name"`
		Type string `json:"type"`
	}
	qosRow struct {
		Type        string                     `json:"type"`
		OtherConfig dictionary[string, string] `json:"other_config"`
		ExternalIDs dictionary[string, string] `json:"external_ids"`
		Queues      dictionary[int, reference] `json:"queues"`
	}
	queueRow struct {
		DSCP        set[int]                   `json:"dscp"` // at most one
		OtherConfig dictionary[string, string] `json:"other_config"`
		ExternalIDs dictionary[string, string] `json:"external_ids"`
	}
)

// columns are asked for by table, and no others: the statistics of all interfaces change
// every few seconds.
var columns = map[string]map[string][]string{
	"Bridge":    {"columns": {"name", "ports"}},
	"Port":      {"columns": {"name", "interfaces", "qos"}},
	"Interface": {"columns": {"name", "type"}},
	"QoS":       {"columns": {"type", "other_config", "external_ids", "queues"}},
	"Queue":     {"columns": {"dscp", "other_config", "external_ids"}},
}

// tables are the rows by UUID.
type tables struct {
	Bridge    map[string]bridgeRow
	Port      map[string]portRow
	Interface map[string]interfaceRow
	QoS       map[string]qosRow
	Queue     map[string]queueRow

	sizes map[tableRow]int // bytes that each row's text has
	text  int              // of all rows together
}

// tableRow names a row, by its UUID.
type tableRow struct{ table, id string }

// changes are rows as they are after a transaction.
type changes[R any] map[string]change[R]

// change is a row with the length of its text; nil has been deleted.
type change[R any] struct {
	row  *R
	size int
}

func (c *change[R]) UnmarshalJSON(text []byte) error {
	c.size = len(text)
	if c.size > maxRow {
		return fmt.Errorf("a row of %d bytes, and %d are the most", c.size, maxRow)
	}
	return json.Unmarshal(text, &struct {
		New **R `json:"new"`
	}{&c.row})
}

// follow makes changes to the rows of a table.
func follow[R any](t *tables, table string, rows *map[string]R, all changes[R]) {
	if *rows == nil {
		*rows = map[string]R{}
	}
	for id, change := range all {
		at := tableRow{table, id}
		t.text -= t.sizes[at]
		delete(t.sizes, at)
		if change.row == nil {
			delete(*rows, id)
			continue
		}
		(*rows)[id], t.sizes[at] = *change.row, len(id)+change.size
		t.text += t.sizes[at]
	}
}

// apply makes the changes of one transaction, the parameters of an update (the monitor's name and
// the rows), or of the first answer, which is all rows.
func (t *tables) apply(text json.RawMessage) error {
	var u struct {
		Bridge    changes[bridgeRow]
		Port      changes[portRow]
		Interface changes[interfaceRow]
		QoS       changes[qosRow]
		Queue     changes[queueRow]
	}
	var into any = &u
	params := [3]any{new(json.RawMessage), &u}
	if bytes.HasPrefix(text, []byte("[")) {
		into = &params
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("rows of the database: %w", err)
	}
	if params[1] == nil || params[2] != nil {
		return errors.New("an update of the database has no rows")
	}
	if t.sizes == nil {
		t.sizes = map[tableRow]int{}
	}
	follow(t, "Bridge", &t.Bridge, u.Bridge)
	follow(t, "Port", &t.Port, u.Port)
	follow(t, "Interface", &t.Interface, u.Interface)
	follow(t, "QoS", &t.QoS, u.QoS)
	follow(t, "Queue", &t.Queue, u.Queue)
	if len(t.sizes) > maxRows {
		return fmt.Errorf("more than %d rows", maxRows)
	}
	if t.text > maxText {
		return fmt.Errorf("rows of more than %d MB", maxText>>20)
	}
	return nil
}

// Conn is a connection to a database and a copy of its tables. Its methods may be called
// from any goroutine.
type Conn struct {
	address string
	session *session
	changed chan struct{}

	mu   sync.Mutex
	rows tables
}

// Dial connects to "unix:PATH", "tcp:HOST:PORT" or "ssl:HOST:PORT" and reads the
// tables. files are for ssl.
func Dial(ctx context.Context, address string, files tlsfile.Files) (*Conn, error) {
	c := &Conn{address: address, changed: make(chan struct{}, 1)}
	conn, err := dialUp(ctx, address, files)
	if err != nil {
		return nil, c.failed(err)
	}
	c.session = newSession(conn, files, c.update)
	if _, err := c.session.call(ctx, "monitor", c.update, database, nil, columns); err != nil {
		c.Close()
		return nil, c.failed(err)
	}
	return c, nil
}

// update has the copy follow one transaction.
func (c *Conn) update(rows json.RawMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.rows.apply(rows); err != nil {
		return err
	}
	select {
	case c.changed <- struct{}{}:
	default: // the receiver has not looked yet
	}
	return nil
}

// failed returns an error with the database's address.
func (c *Conn) failed(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	return fmt.Errorf("ovsdb %s: %w", c.address, err)
}

// Changed returns a channel with a value when the tables may have changed since the last
// one.
func (c *Conn) Changed() <-chan struct{} { return c.changed }

// Lost returns a channel that is closed when the connection is gone.
func (c *Conn) Lost() <-chan struct{} { return c.session.lost }

// Alive asks the database for an answer.
func (c *Conn) Alive(ctx context.Context) error {
	if _, err := c.session.call(ctx, "echo", nil); err != nil {
		return c.failed(err)
	}
	return nil
}

// Close ends the connection.
func (c *Conn) Close() { c.session.end(errLost) }

// Snapshot returns the present content of the copy.
func (c *Conn) Snapshot() (Content, error) {
	if err := c.session.why(); err != nil {
		return Content{}, c.failed(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.rows.assemble()
	if err != nil {
		return Content{}, c.failed(err)
	}
	return s, nil
}

// errDangling is the error of tables that lack a row.
var errDangling = errors.New("its rows refer to rows that are not there")

// assemble follows the references between rows. All lead somewhere in a database that is in
// order. A row that many others refer to, such as a port in many bridges, counts for each of them:
// a short text has references without measure otherwise.
func (t *tables) assemble() (s Content, err error) {
	whole, followed := true, 0
	s.QoS = map[string]*QoS{}
	for id, r := range t.QoS {
		s.QoS[id] = t.qos(id, r)
		whole = whole && len(s.QoS[id].Queues) == len(r.Queues)
	}
	used := map[string]bool{}
	for _, b := range t.Bridge {
		bridge := Bridge{Name: b.Name}
		for _, id := range b.Ports {
			r, ok := t.Port[string(id)]
			if !ok {
				whole = false
				continue
			}
			if followed += 1 + len(r.Interfaces); followed > maxRows {
				return Content{}, fmt.Errorf("its bridges and ports refer to more than %d rows", maxRows)
			}
			port := Port{UUID: string(id), Bridge: b.Name, Name: r.Name}
			for _, id := range r.Interfaces {
				if i, ok := t.Interface[string(id)]; ok {
					port.Interfaces = append(port.Interfaces, Interface(i))
				}
			}
			if id := r.QoS.only(); id != nil {
				port.QoS = s.QoS[string(*id)]
				used[string(*id)] = true
				whole = whole && port.QoS != nil
			}
			whole = whole && len(port.Interfaces) == len(r.Interfaces)
			bridge.Ports = append(bridge.Ports, port)
		}
		slices.SortFunc(bridge.Ports, func(a, b Port) int { return cmp.Compare(a.Name, b.Name) })
		s.Bridges = append(s.Bridges, bridge)
	}
	slices.SortFunc(s.Bridges, func(a, b Bridge) int { return cmp.Compare(a.Name, b.Name) })
	for id, q := range s.QoS {
		if q.Own() && !used[id] {
			s.Orphans = append(s.Orphans, *q)
		}
	}
	slices.SortFunc(s.Orphans, func(a, b QoS) int { return cmp.Compare(a.UUID, b.UUID) })
	if !whole {
		return Content{}, errDangling
	}
	return s, nil
}

// qos returns a row with its queues.
func (t *tables) qos(id string, r qosRow) *QoS {
	q := &QoS{UUID: id, Type: r.Type, OtherConfig: r.OtherConfig, ExternalIDs: r.ExternalIDs, Queues: map[int]Queue{}}
	for n, id := range r.Queues {
		if row, ok := t.Queue[string(id)]; ok {
			q.Queues[n] = Queue{UUID: string(id), DSCP: row.DSCP.only(), OtherConfig: row.OtherConfig, ExternalIDs: row.ExternalIDs}
		}
	}
	return q
}
