// SPDX-License-Identifier: Apache-2.0

package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// PortQoS is the QoS row that a port is to have.
type PortQoS struct {
	Port Port   // as it is in a snapshot
	Want *QoS   // a new row; its UUID and those of its queues do not count
	Back string // where Want is nil: UUID of an existing row, "" = none
}

// Replace makes all changes in one transaction. Of the rows that ports had,
// those of Weir's are removed, with the queues in them that are Weir's; so are
// the orphans. It fails, and changes nothing, if a port no longer has the row
// that the snapshot says it has.
func (c *Conn) Replace(ctx context.Context, changes []PortQoS, orphans []QoS) error {
	if len(changes)+len(orphans) == 0 {
		return nil
	}
	var ops []ovsdb.Operation
	for i, change := range changes {
		some, err := c.replaceOne(fmt.Sprintf("weir%d", i), change)
		if err != nil {
			return c.failed(err)
		}
		ops = append(ops, some...)
	}
	for i := range orphans {
		some, err := c.remove(&orphans[i])
		if err != nil {
			return c.failed(err)
		}
		ops = append(ops, some...)
	}
	return c.transact(ctx, ops)
}

func (c *Conn) transact(ctx context.Context, ops []ovsdb.Operation) error {
	results, err := c.client.Transact(ctx, ops...)
	if err != nil {
		return c.failed(err)
	}
	failures, err := ovsdb.CheckOperationResults(results, ops)
	if err == nil {
		return nil
	}
	for _, f := range failures {
		if timeout := new(ovsdb.TimedOut); errors.As(f, &timeout) {
			return c.failed(errors.New("another program has changed a port's QoS meanwhile; no change was made, try again"))
		}
		err = f
	}
	return c.failed(err)
}

// replaceOne returns one change as operations; the names of new rows begin with name.
func (c *Conn) replaceOne(name string, change PortQoS) ([]ovsdb.Operation, error) {
	was, is := &portRow{UUID: change.Port.UUID}, &portRow{UUID: change.Port.UUID}
	if q := change.Port.QoS; q != nil {
		was.QoS = &q.UUID
	}
	if change.Back != "" {
		is.QoS = &change.Back
	}
	port := c.client.Where(was)
	at := 0 // do not wait for it to become so
	ops, err := port.Wait(ovsdb.WaitConditionEqual, &at, was, &was.QoS)
	if err != nil {
		return nil, err
	}
	if change.Want != nil {
		for _, row := range change.Want.rows(name) {
			insert, err := c.client.Create(row)
			if err != nil {
				return nil, err
			}
			ops = append(ops, insert...)
		}
		is.QoS = &name
	}
	update, err := port.Update(is, &is.QoS)
	if err != nil {
		return nil, err
	}
	gone, err := c.remove(change.Port.QoS)
	return append(append(ops, update...), gone...), err
}

// rows returns the QoS as new rows: its queues, and itself, which is called name.
func (q *QoS) rows(name string) []model.Model {
	row := &qosRow{UUID: name, Type: q.Type, OtherConfig: q.OtherConfig, ExternalIDs: q.ExternalIDs, Queues: map[int]string{}}
	var rows []model.Model
	for _, n := range slices.Sorted(maps.Keys(q.Queues)) {
		id := fmt.Sprintf("%squeue%d", name, n)
		queue := q.Queues[n]
		rows = append(rows, &queueRow{UUID: id, DSCP: queue.DSCP, OtherConfig: queue.OtherConfig, ExternalIDs: queue.ExternalIDs})
		row.Queues[n] = id
	}
	return append(rows, row)
}

// remove deletes a row of Weir's and its queues; of another's, nothing.
func (c *Conn) remove(q *QoS) ([]ovsdb.Operation, error) {
	if !q.Own() {
		return nil, nil
	}
	ops, err := c.client.Where(&qosRow{UUID: q.UUID}).Delete()
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Sorted(maps.Keys(q.Queues)) {
		if q.Queues[n].ExternalIDs[Owner] == "" {
			continue
		}
		some, err := c.client.Where(&queueRow{UUID: q.Queues[n].UUID}).Delete()
		if err != nil {
			return nil, err
		}
		ops = append(ops, some...)
	}
	return ops, nil
}
